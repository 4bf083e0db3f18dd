import { Cron } from 'croner'
import type { EpochMs } from './clock.ts'

/** What becomes of ticks whose time passed while nobody was there to run them. */
export const missedPolicies = ['skip', 'once', 'all'] as const
export type MissedPolicy = (typeof missedPolicies)[number]

/** A message that is published again and again, by a cron expression. */
export interface Schedule extends Timing {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly uid: string | null
  readonly eventType: string
  /** The bytes of every message it publishes. */
  readonly body: Uint8Array
  readonly contentType: string
  readonly channels: readonly string[] | null
  readonly tags: readonly string[] | null
  readonly missed: MissedPolicy
  /** How many missed ticks `all` runs at most: the newest. */
  readonly missedLimit: number
  readonly paused: boolean
  readonly metadata: Readonly<Record<string, string>>
  /** Every tick up to here is dealt with. */
  readonly reachedAt: EpochMs
  /** The tick to come; null when none ever will. */
  readonly nextAt: EpochMs | null
  /** Tries in a row that failed since the last one that did not. */
  readonly failures: number
  /** The last ones, the newest first. */
  readonly runs: readonly ScheduleRun[]
  /** Grows with every change and every run: whoever acts on an earlier one does nothing. */
  readonly revision: number
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
}

/** How a schedule ran, or did not. */
export interface ScheduleRun {
  /** When it was to run; for ticks that were skipped, the last of them. */
  readonly at: EpochMs
  /** When it did. */
  readonly ranAt: EpochMs
  readonly state: 'published' | 'failed' | 'skipped'
  readonly trigger: 'cron' | 'manual'
  /** The id of the message it published. */
  readonly message: string | null
  readonly error: string | null
  /** How many ticks were skipped, up to a hundred; tries that failed are counted in one entry. */
  readonly count: number
}

/** How many of its last runs a schedule remembers. */
export const runsKept = 20
/** A tick that is run later than this after its time was missed. */
export const graceMs = 5 * 60_000
/** Skipped ticks are counted up to this many. */
const countLimit = 100

/** What is to be done about a schedule now. */
export interface RunPlan {
  /** The ticks to publish, in order. */
  readonly ticks: readonly EpochMs[]
  /** Those before them that will not be: the last one, and how many. */
  readonly skipped: { readonly at: EpochMs; readonly count: number } | null
}

/**
 * Decides which ticks up to now are run. The newest one that is not late always is; for the ones before it the policy
 * decides: `skip` runs none of them, `once` lets the newest stand for all, `all` runs each, up to the limit.
 */
export function planRuns(
  schedule: Timing & Pick<Schedule, 'missed' | 'missedLimit' | 'reachedAt'>,
  now: EpochMs,
): RunPlan {
  const { missed, missedLimit, reachedAt } = schedule
  // Usually it is one; finding a tick takes about 0.1 ms, so the many are looked for only when there are several.
  const latest = ticksBetween(schedule, reachedAt, now, 2)
  const due = latest.length < 2 ? latest : ticksBetween(schedule, reachedAt, now, Math.max(missedLimit + 1, countLimit))
  const newest = due.at(-1)
  if (newest === undefined) return { ticks: [], skipped: null }
  const onTime = now - newest <= graceMs
  const run = { skip: onTime ? 1 : 0, once: 1, all: missedLimit + (onTime ? 1 : 0) }[missed]
  const first = Math.max(0, due.length - run)
  const at = due[first - 1]
  return { ticks: due.slice(first), skipped: at === undefined ? null : { at, count: Math.min(first, countLimit) } }
}

/** How long to wait after so many failures in a row: twice as long each time, from seconds to five minutes. */
export function retryWaitMs(failures: number): number {
  return Math.min(5 * 60_000, 2000 * 2 ** Math.min(20, Math.max(0, failures - 1)))
}

/** The runs remembered after another one. Tries of the same tick that fail are one entry, the last. */
export function withRun(runs: readonly ScheduleRun[], run: ScheduleRun): ScheduleRun[] {
  const [last] = runs
  const again = last?.state === 'failed' && run.state === 'failed' && last.at === run.at && last.trigger === run.trigger
  const kept = again ? [{ ...run, count: last.count + 1 }, ...runs.slice(1)] : [run, ...runs]
  return kept.slice(0, runsKept)
}

/** The eventId of a tick's message: the same whoever publishes it, so that the store takes it once. */
export function tickEventId(id: string, tick: EpochMs): string {
  return `${id}-${new Date(tick).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`
}

/** When a schedule runs: five fields of cron, read in a time zone. */
export interface Timing {
  readonly cron: string
  /** An IANA name such as `Europe/Berlin`. */
  readonly timezone: string
}

/** What is wrong with a timing, as the rest of a sentence about the field; undefined when nothing is. */
export function timingProblem(
  timing: Timing,
  now: EpochMs,
): { field: 'cron' | 'timezone'; message: string } | undefined {
  if (!isTimezone(timing.timezone)) {
    return { field: 'timezone', message: 'is not an IANA time zone such as Europe/Berlin or UTC' }
  }
  const fields = timing.cron.trim().split(/\s+/)
  if (fields.length !== 5) {
    const shape = 'must have five fields: minute, hour, day of the month, month, day of the week'
    return { field: 'cron', message: shape }
  }
  // A question mark would stand for the moment the expression is read, which is another one in every process.
  if (timing.cron.includes('?')) return { field: 'cron', message: 'must not contain a question mark' }
  try {
    if (nextTick(timing, now) === null) return { field: 'cron', message: 'never comes: no day of any year fits it' }
  } catch (error) {
    const reason = (error instanceof Error ? error.message : String(error)).replace(/^\w+: /, '')
    return { field: 'cron', message: `is not a cron expression: ${reason.replace(/\.$/, '')}` }
  }
  return undefined
}

/** The first tick after an instant; null when there is none. */
export function nextTick(timing: Timing, after: EpochMs): EpochMs | null {
  return nextTicks(timing, after, 1)[0] ?? null
}

/** The first `count` ticks after an instant, in order. */
export function nextTicks(timing: Timing, after: EpochMs, count: number): EpochMs[] {
  return patternOf(timing)
    .nextRuns(count, new Date(after))
    .map((date) => date.getTime())
}

/** The last `count` ticks that lie after one instant and not after another, in order. */
export function ticksBetween(timing: Timing, after: EpochMs, until: EpochMs, count: number): EpochMs[] {
  // Ticks are on the minute, and what is asked for lies before the given one: the next minute takes this one in.
  const beyond = (Math.floor(until / minuteMs) + 1) * minuteMs
  return patternOf(timing)
    .previousRuns(count, new Date(beyond))
    .map((date) => date.getTime())
    .filter((tick) => tick > after && tick <= until)
    .reverse()
}

const minuteMs = 60_000

/** A pattern that is never started: it only tells instants, and only from those it is given. */
function patternOf({ cron, timezone }: Timing): Cron {
  return new Cron(cron.trim(), { timezone, mode: '5-part' })
}

function isTimezone(name: string): boolean {
  // An offset such as +01:00 is taken by Intl and knows no daylight saving; nobody who writes one means that.
  if (!/^[A-Za-z][A-Za-z0-9_+\-/]*$/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}
