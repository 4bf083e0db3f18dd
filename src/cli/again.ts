import { type Item, pathOf } from './client.ts'
import { instantText, type RemoteCommands } from './remote.ts'
import { counted, text } from './show.ts'
import { followTask, perSecondOption } from './task.ts'

/** `sluice resend` and `sluice recover`: deliver messages again, after a failure or an outage. */
export function addAgain(commands: RemoteCommands): void {
  commands.add(
    commands.program,
    'resend <app> <message> <endpoint>',
    'send one message to one endpoint again',
    async (session, [app = '', message = '', endpoint = '']) => {
      await session.client.post(pathOf('app', app, 'msg', message, 'endpoint', endpoint, 'resend'), { body: {} })
      session.show({ resent: message, endpoint }, () => `Queued ${message} for ${endpoint} again, behind new messages.`)
    },
  )

  commands
    .add(
      commands.program,
      'recover <app> <endpoint>',
      'redeliver failed messages to an endpoint, or with --missing those that it never received',
      async (session, [app = '', endpoint = '']) => {
        const { since, until, missing } = session.options as { since: string; until?: string; missing?: boolean }
        const now = session.world.clock.now()
        const { perSecond } = session.options
        const body = { since: instantText(since, now), until: until && instantText(until, now), perSecond }
        const verb = missing === true ? 'replay-missing' : 'recover'
        const task = await session.client.post(pathOf('app', app, 'endpoint', endpoint, verb), { body })
        if (session.options.wait === false) session.show(task, ({ id }) => `Started task ${text(id)}.`)
        else {
          const done = await followTask(session, text(task.id), 'Recovering')
          session.show(done, ({ data }) => `Queued again: ${counted(Number((data as Item).replayed ?? 0), 'message')}.`)
        }
      },
    )
    .requiredOption('--since <INSTANT>', 'accepted at or after, such as 2026-11-15T09:40:00Z, or 2h for two hours ago')
    .option('--until <INSTANT>', 'accepted before (default: now)')
    .option('--missing', 'messages that match its filters and that it never received')
    .addOption(perSecondOption())
    .option('--no-wait', 'do not wait until it is done')
}
