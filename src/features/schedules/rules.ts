import { Cron } from 'croner'
import type { EpochMs } from '../../domain/clock.ts'
import type { NewSchedule, Schedule, ScheduleRun } from './noun.ts'

/** How many of its last runs a schedule remembers. */
const runsKept = 20
/** A tick is missed when it would run later than this after its time. */
export const graceMs = 5 * 60_000
/** Skipped ticks are counted up to this many, and late ones planned at once: finding a tick takes about 0.1 ms. */
const countLimit = 100

/** The work for a schedule that is due. */
interface RunPlan {
  /** The ticks to publish, in order. */
  readonly ticks: readonly EpochMs[]
  /** The ticks before them, which are not published: the last one, and how many. */
  readonly skipped: { readonly at: EpochMs; readonly count: number } | null
}

/**
 * Decides which ticks up to now are run: each of them while none is missed, as after a change of the leader. When one is, the
 * policy decides: `skip` runs none that is missed, `once` runs only the newest, `all` runs each, up to the limit. The newest is
 * always run when it is not missed.
 */
export function planRuns(
  schedule: Timing & Pick<Schedule, 'missed' | 'missedLimit' | 'reachedAt' | 'nextAt'>,
  now: EpochMs,
): RunPlan {
  const { missed, missedLimit, reachedAt, nextAt } = schedule
  // It has one tick at a time, so a late one is never missed.
  if (followOf(schedule) !== undefined) return { ticks: nextAt === null || nextAt > now ? [] : [nextAt], skipped: null }
  // Usually there is one. Finding a tick takes about 0.1 ms, so more are looked for only when there are several.
  const latest = ticksBetween(schedule, reachedAt, now, 2)
  const oldest = latest.length < 2 ? latest[0] : nextTick(schedule, reachedAt)
  if (latest.length > 1 && oldest !== null && oldest !== undefined && now - oldest <= graceMs) {
    // The rest stays due.
    return { ticks: nextTicks(schedule, reachedAt, countLimit).filter((tick) => tick <= now), skipped: null }
  }
  const due = latest.length < 2 ? latest : ticksBetween(schedule, reachedAt, now, Math.max(missedLimit + 1, countLimit))
  const newest = due.at(-1)
  if (newest === undefined) return { ticks: [], skipped: null }
  const onTime = now - newest <= graceMs
  const run = { skip: onTime ? 1 : 0, once: 1, all: missedLimit + (onTime ? 1 : 0) }[missed]
  const first = Math.max(0, due.length - run)
  const at = due[first - 1]
  return { ticks: due.slice(first), skipped: at === undefined ? null : { at, count: Math.min(first, countLimit) } }
}

/** The wait after this many failures in a row: doubled each time, from two seconds to five minutes. */
export function retryWaitMs(failures: number): number {
  return Math.min(5 * 60_000, 2000 * 2 ** Math.min(20, Math.max(0, failures - 1)))
}

/** Adds a run to those that are remembered. Failed tries of the same tick are one entry. */
export function withRun(runs: readonly ScheduleRun[], run: ScheduleRun): ScheduleRun[] {
  const [last] = runs
  const isSameTick =
    last?.state === 'failed' && run.state === 'failed' && last.at === run.at && last.trigger === run.trigger
  const kept = isSameTick ? [{ ...run, count: last.count + 1 }, ...runs.slice(1)] : [run, ...runs]
  return kept.slice(0, runsKept)
}

/** The eventId of a tick's message. Every process makes the same, so that the store accepts the message once. */
export function tickEventId(id: string, tick: EpochMs): string {
  return `${id}-${new Date(tick).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`
}

/** When a schedule runs. */
export interface Timing {
  /** Five fields of cron, or six with seconds first, read in the time zone; or `@after` and a time such as `5m`, or and these. */
  readonly cron: string
  /** An IANA name such as `Europe/Berlin`. */
  readonly timezone: string
}

/** The problem of an invalid timing, as the rest of a sentence about the field. */
export function timingProblem(
  timing: Timing,
  now: EpochMs,
): { field: 'cron' | 'timezone'; message: string } | undefined {
  if (!isTimezone(timing.timezone)) {
    return { field: 'timezone', message: 'is not an IANA time zone such as Europe/Berlin or UTC' }
  }
  const wait = followOf(timing)
  if (typeof wait === 'number') {
    if (wait >= shortestAfterMs && wait <= longestAfterMs) return undefined
    return { field: 'cron', message: 'must be @after with 5s to 30d, such as @after 5m' }
  }
  return cronProblem(wait ?? timing, now)
}

function cronProblem(timing: Timing, now: EpochMs): { field: 'cron'; message: string } | undefined {
  const fields = fieldsOf(timing)
  if (fields !== 5 && fields !== 6) {
    const five = 'must have five fields (minute, hour, day of the month, month, day of the week)'
    return {
      field: 'cron',
      message: `${five}, six with seconds first, or be @after and a time such as @after 5m, or @after and such fields`,
    }
  }
  // A question mark means the moment at which the expression is read, which differs in every process.
  if (timing.cron.includes('?')) return { field: 'cron', message: 'must not contain a question mark' }
  try {
    if (nextTicks(timing, now, 1).length === 0)
      return { field: 'cron', message: 'never comes: no day of any year fits it' }
  } catch (error) {
    const reason = (error instanceof Error ? error.message : String(error)).replace(/^\w+: /, '')
    return { field: 'cron', message: `is not a cron expression: ${reason.replace(/\.$/, '')}` }
  }
  return undefined
}

const shortestAfterMs = 5000
const longestAfterMs = 30 * 24 * 60 * 60_000
const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/**
 * When a schedule with `@after` runs once the deliveries of its last run have ended: after a time, or at the next tick of an
 * expression. Undefined for a schedule that does not wait for them.
 */
function followOf({ cron, timezone }: Timing): number | Timing | undefined {
  const [, rest] = /^@after\s+(.+)$/.exec(cron.trim()) ?? []
  if (rest === undefined) return undefined
  const [, digits, unit] = /^(\d{1,9})([smhd])$/.exec(rest) ?? []
  return digits === undefined ? { cron: rest, timezone } : Number(digits) * unitMs[unit as keyof typeof unitMs]
}

/** Whether a schedule waits for the deliveries of its last run to end. */
export function followsDeliveries(timing: Timing): boolean {
  return followOf(timing) !== undefined
}

/** The tick of a schedule with `@after` whose last deliveries ended at this instant; null when there is none. */
export function tickAfterEnd(timing: Timing, end: EpochMs): EpochMs | null {
  const follow = followOf(timing)
  if (follow === undefined) return null
  return typeof follow === 'number' ? end + follow : (nextTicks(follow, end, 1)[0] ?? null)
}

/**
 * How long a schedule with `@after` waits before it looks again whether the last deliveries have ended. The instant of the
 * end is recorded, so the next run is exact as long as this is shorter than the time between the two.
 */
function lookAgainMs(follow: number | Timing, now: EpochMs): number {
  return Math.min(60_000, Math.max(1000, typeof follow === 'number' ? follow / 2 : betweenTicks(follow, now) / 60))
}

function betweenTicks(timing: Timing, now: EpochMs): number {
  const [first = now, second = first] = nextTicks(timing, now, 2)
  return second - first
}

/** The first tick of a schedule that starts now; null when there is none. */
export function firstTick(timing: Timing, now: EpochMs): EpochMs | null {
  return followsDeliveries(timing) ? tickAfterEnd(timing, now) : nextTick(timing, now)
}

/** The next `count` ticks that are known, in order. */
export function knownTicks(schedule: Timing & Pick<Schedule, 'reachedAt' | 'nextAt'>, now: EpochMs, count: number) {
  const { reachedAt, nextAt } = schedule
  if (!followsDeliveries(schedule)) return nextTicks(schedule, Math.max(now, reachedAt), count)
  return nextAt === null ? [] : [nextAt].slice(0, count)
}

/** The first tick after an instant; null when there is none, or when it depends on deliveries. */
export function nextTick(timing: Timing, after: EpochMs): EpochMs | null {
  if (followsDeliveries(timing)) return null
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
  // `previousRuns` answers ticks before an instant. Ticks are on the second, so the next second includes `until`.
  const beyond = (Math.floor(until / 1000) + 1) * 1000
  return patternOf(timing)
    .previousRuns(count, new Date(beyond))
    .map((date) => date.getTime())
    .filter((tick) => tick > after && tick <= until)
    .reverse()
}

function patternOf({ cron, timezone }: Timing): Cron {
  return new Cron(cron.trim(), { timezone, mode: fieldsOf({ cron }) === 6 ? '6-part' : '5-part' })
}

function fieldsOf({ cron }: Pick<Timing, 'cron'>): number {
  return cron.trim().split(/\s+/).length
}

function isTimezone(name: string): boolean {
  // Intl accepts an offset such as +01:00, which has no daylight saving and is rarely meant.
  if (!/^[A-Za-z][A-Za-z0-9_+\-/]*$/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

/** The values of a new schedule, as of now. */
export function newSchedule(input: NewSchedule, now: EpochMs) {
  const clean = { failures: 0, runs: [] as readonly ScheduleRun[], revision: 0 }
  return { ...input, ...clean, reachedAt: now, nextAt: firstTick(input, now) }
}

/** A changed schedule with the values that follow. Another timing and the end of a pause start from now. */
export function changedSchedule(after: Schedule, before: Schedule, now: EpochMs): Schedule {
  const revision = before.revision + 1
  const resumed = before.paused && !after.paused
  const retimed = after.cron !== before.cron || after.timezone !== before.timezone
  if (!resumed && !retimed) return { ...after, revision }
  const reachedAt = Math.max(now, before.reachedAt)
  return { ...after, reachedAt, nextAt: firstTick(after, reachedAt), failures: 0, revision }
}

/** When a schedule that was made or changed is to be looked at. */
export function dueAtOf(
  schedule: Pick<Schedule, 'cron' | 'timezone' | 'paused' | 'nextAt' | 'updatedAt'>,
): EpochMs | null {
  return schedule.paused ? null : lookAt(schedule, schedule.nextAt, schedule.updatedAt)
}

/** When to look at a schedule: at its next tick, or in a while whether the deliveries of its last run have ended. */
export function lookAt(timing: Timing, nextAt: EpochMs | null, now: EpochMs): EpochMs | null {
  const follow = followOf(timing)
  return nextAt ?? (follow === undefined ? null : now + lookAgainMs(follow, now))
}
