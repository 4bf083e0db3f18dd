import { Cron } from 'croner'
import type { EpochMs } from './clock.ts'

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
