import { type Static, Type } from 'typebox'
import type { EpochMs } from '../../domain/clock.ts'
import type { ReplayFilter, Span } from '../../domain/task.ts'
import { refuseIf } from '../validate.ts'
import { success } from './attempt.ts'
import { integer, nullable } from './field.ts'
import { dateTime, readInstants } from './instant.ts'

/** How many deliveries a second a replay queues at most. The endpoint's own limits hold besides. */
export const perSecond = Type.Optional(nullable(integer(1, 100_000)))

/** What recovers an endpoint, or replays what it missed: messages accepted from `since` on, before `until`. */
export const ReplayIn = Type.Object({ since: dateTime, until: Type.Optional(nullable(dateTime)), perSecond })
export type ReplayIn = Static<typeof ReplayIn>

/** What replays by filter. */
export const BulkReplayIn = Type.Object({
  ...ReplayIn.properties,
  eventTypes: Type.Optional(nullable(Type.Array(Type.String({ maxLength: 256 }), { minItems: 1, maxItems: 1000 }))),
  channel: Type.Optional(nullable(Type.String({ maxLength: 128 }))),
  tag: Type.Optional(nullable(Type.String({ maxLength: 128 }))),
  status: Type.Optional(nullable(Type.Enum([0, 2], { description: '0 success, 2 fail' }))),
  statusCodeClass: Type.Optional(nullable(integer(0, 500))),
})
export type BulkReplayIn = Static<typeof BulkReplayIn>

/** What was published a moment ago may have a key of the next millisecond, or of a store whose clock is a little ahead. */
const skewMs = 1000

/** The time a replay means, up to now where it does not say. Throws AppError when it is none. */
export function readSpan(input: { readonly since: string; readonly until?: string | null }, now: EpochMs): Span {
  const { since = 0, until = now + skewMs } = readInstants('body', { since: input.since, until: input.until })
  const problem = { at: ['body', 'since'], message: 'must be before until', type: 'range' }
  refuseIf(since >= until ? [problem] : [])
  return { since: Math.max(0, since), until }
}

export function toReplayFilter(input: BulkReplayIn): ReplayFilter {
  const { eventTypes = null, channel = null, tag = null, status = null, statusCodeClass: statusClass = null } = input
  const outcome = status === null ? null : status === success ? 'delivered' : 'failed'
  return { eventTypes, channel, tag, outcome, statusClass }
}
