import type { Delivering } from '../compose/delivering.ts'
import type { Parts } from '../compose/parts.ts'
import type { Loaded } from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import type { Config } from '../runtime/settings.ts'
import type { Options, World } from './command.ts'
import { CommandError, exitCode } from './exit.ts'
import { stopDelivering } from './serve.ts'
import { toJson } from './terminal.ts'

const lookMs = 25

/**
 * `sluice drain`: sends the deliveries that are due and ends, for hosts with cron and no long-running processes. When
 * another process already delivers from the SQLite file, it ends at once, successfully.
 */
export async function drain(world: World, { config }: Loaded, options: Options): Promise<number> {
  const { terminal } = world
  const stopRequested = terminal.stopRequested()
  const { quiet, json } = options
  // With --quiet, cron has no output to mail unless there is a problem.
  const log = world.openLog(quiet ? { ...config, logLevel: 'warn' } : config)
  const say = quiet ? () => {} : terminal.print
  const parts = await openUnlessOwned(world, config, log, (reason) =>
    say(json ? toJson({ ended: 'owned', reason }) : `Nothing to do: ${reason}.`),
  )
  if (parts === undefined) return exitCode.ok
  try {
    const delivering = await parts.startDelivering(`sluice drain (${terminal.description})`)
    const ended = await waitForEnd(world, delivering, options, stopRequested)
    const code = await stopDelivering(delivering, config.shutdownLimit, log)
    say(report(delivering, ended, json === true))
    return code
  } finally {
    await parts.store.close()
  }
}

async function openUnlessOwned(
  world: World,
  config: Config,
  log: Logger,
  onOwned: (reason: string) => void,
): Promise<Parts | undefined> {
  try {
    return await world.openParts(config, log)
  } catch (error) {
    if (!(error instanceof CommandError) || error.exitCode !== exitCode.owned) throw error
    onOwned((error.cause as Error).message)
    return undefined
  }
}

type End = 'idle' | 'time' | 'signal'

/** Resolves when nothing is left to send, the time is up, or a signal arrives. */
function waitForEnd(
  { clock }: World,
  delivering: Delivering,
  options: Options,
  stopRequested: Promise<unknown>,
): Promise<End> {
  const { for: forMs, linger: lingerMs } = options as { for: number; linger: number }
  const deadline = clock.steady() + forMs
  let cancel = () => {}
  const ended = new Promise<End>((resolve) => {
    const look = () => {
      const leftMs = deadline - clock.steady()
      if (leftMs <= 0) resolve('time')
      else if (delivering.isIdle(Math.min(lingerMs, leftMs))) resolve('idle')
      else cancel = clock.after(Math.min(lookMs, leftMs), look)
    }
    look()
  })
  return Promise.race([ended, stopRequested.then(() => 'signal' as const)]).finally(() => cancel())
}

function report({ tally }: Delivering, ended: End, json: boolean): string {
  if (json) return toJson({ ended, ...tally })
  const reason = { idle: 'nothing more is due', time: 'time limit reached', signal: 'stopped by a signal' }[ended]
  const { delivered, waiting, dead } = tally
  return `Drained: ${delivered} delivered, ${waiting} to retry, ${dead} dead; ${reason}.`
}
