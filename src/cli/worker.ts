import { CommandError, exitCode } from './outcome.ts'
import { stopDelivering } from './stop.ts'
import type { Command } from './world.ts'

/** `sluice worker`: delivers without an API, together with other workers on one Postgres database. */
export const worker: Command = async (world, { config }) => {
  if (config.store.kind === 'sqlite') {
    throw new CommandError(
      'Workers need a Postgres store. With SQLite, `sluice serve` delivers by itself. Set --store postgres://… to add workers.',
      exitCode.misused,
    )
  }
  const { terminal } = world
  const stopRequested = terminal.stopRequested()
  const log = world.openLog(config)
  const parts = await world.openParts(config, log)
  try {
    const description = `sluice worker (${terminal.description})`
    const delivering = await parts.startDelivering(description)
    terminal.print(`Sluice ${world.version}: delivering as a worker`)
    log.info('started')

    const signal = await stopRequested
    log.info({ signal }, 'stopping')
    return await stopDelivering(delivering, config.shutdownLimit, log)
  } finally {
    await parts.store.close()
  }
}
