import { type Static, Type } from 'typebox'
import type { EpochMs } from '../../domain/clock.ts'
import { parseInstant } from '../../domain/instant.ts'
import { refuseIf } from '../validate.ts'
import { instantPattern } from './pattern.ts'

const instant = Type.String({
  pattern: instantPattern,
})

/** The time to look at, 28 days at most. */
export const StatsQuery = Type.Object({ since: Type.Optional(instant), until: Type.Optional(instant) })
export type StatsQuery = Static<typeof StatsQuery>

const longestMs = 28 * 24 * 60 * 60 * 1000
/** The store's clock may be ahead of this machine's; what has just happened counts. */
const skewMs = 60_000

/** The asked time as instants: up to now, and as far back as is allowed, where it does not say. Throws AppError. */
export function readStatsRange(query: StatsQuery, now: EpochMs): { since: EpochMs; until: EpochMs } {
  const until = query.until === undefined ? now : parseInstant(query.until)
  const since = query.since === undefined ? until - longestMs : parseInstant(query.since)
  const problem = (field: string, message: string) => ({ at: ['query', field], message, type: 'range' })
  refuseIf([
    ...(Number.isNaN(until) ? [problem('until', 'is not an instant')] : []),
    ...(Number.isNaN(since) ? [problem('since', 'is not an instant')] : []),
    ...(since > until ? [problem('since', 'must not be after until')] : []),
    ...(until - since > longestMs ? [problem('since', 'must not be more than 28 days before until')] : []),
  ])
  return { since, until: query.until === undefined ? until + skewMs : until }
}
