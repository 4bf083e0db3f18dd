import type { Delivering } from '../compose/delivering.ts'
import type { Parts } from '../compose/parts.ts'
import type { SteadyMs } from '../domain/clock.ts'
import { count } from '../domain/phrases.ts'
import type { Meter } from '../metrics/meter.ts'
import { surveyRows } from '../metrics/queue-count.ts'
import type { Loaded } from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import type { Config } from '../runtime/settings.ts'
import type { Store } from '../store/store.ts'
import type { Options, World } from './command.ts'
import { stopDelivering } from './serve.ts'
import { CommandError, exitCode, toJson } from './terminal.ts'

const lookMs = 25
/** The last part of the time, in which results are recorded, lanes handed back and the rest is counted. */
const closingShare = 0.05
const [leastClosingMs, mostClosingMs] = [200, 1000]
/**
 * An attempt gets at least this share of the run, or its timeout if that is shorter: a receiver that needs longer than the
 * rest of the run is not called in vain late in each run.
 */
const attemptShare = 2 / 3
/** The rest is counted up to here. */
const mostCounted = 100_000

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
  const limitAt = clock.steady() + forMs
  const endsAt = limitAt - Math.min(mostClosingMs, Math.max(leastClosingMs, forMs * closingShare))
  const stopRequested = terminal.stopRequested()
  const say = quiet ? () => {} : terminal.print
  const parts = await openUnlessOwned(world, config, log, (reason) =>
    say(json ? toJson({ ended: 'owned', reason }) : `Nothing to do: ${reason}.`),
  )
  if (parts === undefined) return exitCode.ok
  try {
    const run = { endsAt, mostNeededMs: (endsAt - clock.steady()) * attemptShare }
    const delivering = await parts.startDelivering(`sluice drain (${terminal.description})`, run)
    const ended = await waitForEnd(world, delivering, endsAt, lingerMs, stopRequested)
    const limitMs = Math.min(config.shutdownLimit, Math.max(0, endsAt - clock.steady()))
    const code = await stopDelivering(delivering, limitMs, log)
    if (code !== exitCode.ok) return code
    const summary = { ...summaryOf(parts.meter), left: await countDue(world, parts.store, limitAt) }
    say(json ? toJson({ ended, ...summary }) : report(ended, summary))
    if (ended !== 'time') return exitCode.ok
    if (summary.givenUp > 0) log.warn(remedyFor(summary.givenUp))
    return summary.givenUp + summary.left > 0 ? exitCode.unfinished : exitCode.ok
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

/** Resolves when nothing can be sent within the linger, when the time of attempts is up, or when a signal arrives. */
function waitForEnd(
  { clock }: World,
  delivering: Delivering,
  endsAt: SteadyMs,
  lingerMs: number,
  stopRequested: Promise<unknown>,
): Promise<End> {
  let cancel = () => {}
  const ended = new Promise<End>((resolve) => {
    const look = () => {
      const leftMs = endsAt - clock.steady()
      if (leftMs <= 0) resolve('time')
      else if (delivering.isIdle(lingerMs)) resolve(delivering.lacksTime(lingerMs) ? 'time' : 'idle')
      else cancel = clock.after(Math.min(lookMs, leftMs), look)
    }
    look()
  })
  return Promise.race([ended, stopRequested.then(() => 'signal' as const)]).finally(() => cancel())
}

/** How many deliveries are due at endpoints that are neither paused nor disabled, counted to `mostCounted` or until the limit. */
async function countDue({ clock }: World, store: Store, limitAt: SteadyMs): Promise<number> {
  const stopAt = (clock.steady() + limitAt) / 2
  let due = 0
  let seen = 0
  let after: Parameters<Store['surveyWaiting']>[0] = null
  do {
    const page: Awaited<ReturnType<Store['surveyWaiting']>> = await store.surveyWaiting(after, surveyRows.long)
    for (const { stopped, late, count: rows } of page.counts) {
      seen += rows
      if (!stopped) due += late
    }
    after = page.next
  } while (after !== null && seen < mostCounted && clock.steady() < stopAt)
  return due
}

interface Summary {
  readonly delivered: number
  /** Deliveries that wait for another attempt. */
  readonly waiting: number
  readonly dead: number
  /** Attempts that were under way at the end of the run. Their deliveries are among those that wait. */
  readonly givenUp: number
  /** Deliveries that are due. */
  readonly left: number
}

function summaryOf(meter: Meter): Omit<Summary, 'left'> {
  const { ends, deliveriesRetried: waiting } = meter
  let givenUp = 0
  for (const { outcome, count: attempts } of meter.attempts()) if (outcome === 'aborted') givenUp += attempts
  return { delivered: ends.delivered, waiting, dead: ends.dead + ends.expired + ends.dropped, givenUp }
}

function report(ended: End, { delivered, waiting, dead, givenUp, left }: Summary): string {
  const reason = { idle: 'nothing more is due', time: 'time limit reached', signal: 'stopped by a signal' }[ended]
  const rest = ended === 'idle' && left > 0 ? 'nothing more may be sent yet' : reason
  const open = [...(left > 0 ? [`${left} due`] : []), ...(givenUp > 0 ? [`${count(givenUp, 'attempt')} given up`] : [])]
  return `Drained: ${[`${delivered} delivered`, `${waiting} to retry`, `${dead} dead`, ...open].join(', ')}; ${rest}.`
}

function remedyFor(givenUp: number): string {
  const were = givenUp === 1 ? 'was' : 'were'
  return `${count(givenUp, 'attempt')} ${were} given up at the end of the run: set --for longer than the timeout of the endpoints, or a shorter timeout`
}
