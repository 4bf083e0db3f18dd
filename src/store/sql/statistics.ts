import { attemptsPerCount, type Endpoints } from '../endpoints.ts'
import type { Methods, Port } from './port.ts'
import { statement } from './statement.ts'

// Both lean on attempt_endpoint. All attempts of one millisecond are counted together, so that none is missed or counted
// twice where one count ends and the next begins.
const selectReach = statement<{ at: number }>(
  'attempts-reach',
  `select at from attempt where endpoint = :endpoint and at > :after and at <= :until
    order by at limit 1 offset ${attemptsPerCount - 1}`,
)
const countRange = statement<{ delivered: number; failed: number }>(
  'count-attempts',
  `select count(*) filter (where code = 'delivered') as delivered, count(*) filter (where code <> 'delivered') as failed
     from attempt where endpoint = :endpoint and at > :after and at <= :reached`,
)
// A range of pending's primary key.
const countPending = statement<{ count: number }>(
  'count-waiting-at',
  'select count(*) as count from (select 1 from pending where endpoint = :endpoint limit :limit) as waiting',
)

/** Counts for the statistics of an endpoint. */
export function statistics(port: Port): Methods<Pick<Endpoints, 'countAttempts' | 'countWaiting'>> {
  return {
    *countAttempts(endpoint, after, until) {
      const reached = (yield* port.first(selectReach, { endpoint, after, until }))?.at ?? until
      const row = yield* port.first(countRange, { endpoint, after, reached })
      return { delivered: row?.delivered ?? 0, failed: row?.failed ?? 0, reached }
    },

    *countWaiting(endpoint, limit) {
      return (yield* port.first(countPending, { endpoint, limit }))?.count ?? 0
    },
  }
}
