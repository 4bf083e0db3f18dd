import { Type } from 'typebox'
import type { FieldError } from '../domain/app-error.ts'
import { type EpochMs, instantPattern, parseInstant } from '../domain/clock.ts'
import { firstKeyAt } from '../domain/ids.ts'
import { type Part, refuseIf } from './validate.ts'

/** An instant, RFC 3339. */
export const dateTime = Type.String({ pattern: instantPattern, description: 'RFC 3339' })

/** Reads instants that have the right shape; throws AppError when one is no day of any calendar, such as February 31. */
export function readInstants<Name extends string>(
  part: Part,
  values: Readonly<Partial<Record<Name, string | null | undefined>>>,
): Record<Name, EpochMs | undefined> {
  const problems: FieldError[] = []
  const instants: Record<string, EpochMs | undefined> = {}
  for (const [name, value] of Object.entries<string | null | undefined>(values)) {
    const at = value === undefined || value === null ? undefined : parseInstant(value)
    if (Number.isNaN(at)) problems.push({ at: [part, name], message: 'is not an instant', type: 'instant' })
    instants[name] = at
  }
  refuseIf(problems)
  return instants as Record<Name, EpochMs | undefined>
}

/** An instant may be this much older than allowed, so that a client with another clock can ask for the full time. */
export const toleranceMs = 5 * 60 * 1000

const lookBackMs = 90 * 24 * 60 * 60 * 1000

/** The time a list covers: from `after` on, up to `before`, or without either the last 90 days. */
export function readTimes(
  query: { readonly before?: string; readonly after?: string },
  now: EpochMs,
): { from: EpochMs; until: EpochMs } {
  const { before, after } = readInstants('query', { before: query.before, after: query.after })
  const oldest = before === undefined ? now - lookBackMs : 0
  return { from: after ?? oldest, until: before ?? Number.MAX_SAFE_INTEGER }
}

/** The same time as a range of keys. */
export function keyRangeOf({ from, until }: { readonly from: EpochMs; readonly until: EpochMs }) {
  return { from: keyAt(from), until: keyAt(until) }
}

function keyAt(at: EpochMs): number {
  return Math.min(Math.max(0, firstKeyAt(at)), Number.MAX_SAFE_INTEGER)
}
