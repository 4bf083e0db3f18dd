import type { Delivering } from '../compose/delivering.ts'
import type { Parts } from '../compose/parts.ts'
import type { SteadyMs } from '../domain/clock.ts'
import type { Meter } from '../metrics/meter.ts'
import type { Loaded } from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import type { Config } from '../runtime/settings.ts'
import type { Options, World } from './command.ts'
import { CommandError, exitCode } from './exit.ts'
import { stopDelivering } from './serve.ts'
import { toJson } from './terminal.ts'

const lookMs = 25
/** Nothing is started in the last part of the time, so that attempts under way can end. */
const closingMs = 5000
/** After that, results are recorded and lanes handed back. */
const handBackMs = 2000

/**
 * `sluice drain`: sends the deliveries that are due and ends, for hosts with cron and no long-running processes. When
 * another process already delivers from the SQLite file, it ends at once, successfully. `--for` is a hard limit: whatever
 * is not handed back by then belongs to the next process once the lease expires.
 */
export async function drain(world: World, { config }: Loaded, options: Options): Promise<number> {
  const { for: forMs, quiet } = options as { for: number; quiet?: boolean }
  // With --quiet, cron has no output to mail unless there is a problem.
  const log = world.openLog(quiet ? { ...config, logLevel: 'warn' } : config)
  let cancel = () => {}
  const late = new Promise<number>((resolve) => {
    cancel = world.clock.after(forMs, () => {
      log.error('time limit reached before the store answered: its lanes are free when the lease expires')
      resolve(exitCode.failed)
    })
  })
  return Promise.race([drainStore(world, config, log, options), late]).finally(() => cancel())
}

async function drainStore(world: World, config: Config, log: Logger, options: Options): Promise<number> {
  const { terminal, clock } = world
  const { for: forMs, linger: lingerMs, quiet, json } = options as { for: number; linger: number } & Options
  const partMs = Math.floor(forMs / 4)
  const abortAt = clock.steady() + forMs - Math.min(handBackMs, partMs)
  const startUntil = abortAt - Math.min(closingMs, partMs, config.shutdownLimit)
  const stopRequested = terminal.stopRequested()
  const say = quiet ? () => {} : terminal.print
  const parts = await openUnlessOwned(world, config, log, (reason) =>
    say(json ? toJson({ ended: 'owned', reason }) : `Nothing to do: ${reason}.`),
  )
  if (parts === undefined) return exitCode.ok
  try {
    const delivering = await parts.startDelivering(`sluice drain (${terminal.description})`)
    const ended = await waitForEnd(world, delivering, startUntil, lingerMs, stopRequested)
    const limitMs = Math.min(config.shutdownLimit, Math.max(0, abortAt - clock.steady()))
    const code = await stopDelivering(delivering, limitMs, log)
    say(report(parts.meter, ended, json === true))
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

/** Resolves when nothing can be sent within the linger, the time to start attempts is up, or a signal arrives. */
function waitForEnd(
  { clock }: World,
  delivering: Delivering,
  startUntil: SteadyMs,
  lingerMs: number,
  stopRequested: Promise<unknown>,
): Promise<End> {
  let cancel = () => {}
  const ended = new Promise<End>((resolve) => {
    const look = () => {
      const leftMs = startUntil - clock.steady()
      if (delivering.isIdle(lingerMs)) resolve('idle')
      else if (leftMs <= 0) resolve('time')
      else cancel = clock.after(Math.min(lookMs, leftMs), look)
    }
    look()
  })
  return Promise.race([ended, stopRequested.then(() => 'signal' as const)]).finally(() => cancel())
}

function report({ ends, deliveriesRetried: waiting }: Meter, ended: End, json: boolean): string {
  const delivered = ends.delivered
  const dead = ends.dead + ends.expired + ends.dropped
  if (json) return toJson({ ended, delivered, waiting, dead })
  const reason = { idle: 'nothing more is due', time: 'time limit reached', signal: 'stopped by a signal' }[ended]
  return `Drained: ${delivered} delivered, ${waiting} to retry, ${dead} dead; ${reason}.`
}
