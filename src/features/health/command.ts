import type { RemoteCommands } from '../../cli/command.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'

/** `sluice health`: whether a process works, as an exit code for health checks of containers and scripts. */
export function addHealth(commands: RemoteCommands): void {
  commands
    .add('health', 'exit with 0 if the server is healthy, else with 1 (needs no key)', async (session) => {
      const path = session.options.live === true ? '/health/ping' : '/health'
      // One code for every reason: Docker reserves 2.
      const answer = await session.client.get(path).catch((error: unknown) => {
        if (!(error instanceof CommandError)) throw error
        throw new CommandError(error.message, exitCode.failed, { cause: error })
      })
      session.show({ status: 'healthy', ...answer }, () => 'Healthy.')
    })
    .option(
      '--live',
      'ask only whether the process answers; a worker answers at its address for metrics (--metrics-listen)',
    )
}
