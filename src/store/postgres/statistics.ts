import { type AttemptCount, attemptsPerCount, type Statistics } from '../statistics.ts'
import type { Database } from './database.ts'
import type { Statement } from './sessions.ts'

// Both lean on attempt_endpoint. What happened in one millisecond is counted together, so that none is missed or counted
// twice where one count ends and the next begins.
const selectReach: Statement = {
  name: 'attempts-reach',
  text: `
    select at from attempt where endpoint = $1 and at > $2 and at <= $3
     order by at limit 1 offset ${attemptsPerCount - 1}`,
}
const countRange: Statement = {
  name: 'count-attempts',
  text: `
    select count(*) filter (where code = 'delivered') as delivered, count(*) filter (where code <> 'delivered') as failed
      from attempt where endpoint = $1 and at > $2 and at <= $3`,
}
const countPending: Statement = {
  name: 'count-waiting',
  text: 'select count(*) as count from (select from pending where endpoint = $1 limit $2) as waiting',
}

/** Numbers for people. */
export function statistics({ durable }: Database): Statistics {
  return {
    async countAttempts(endpoint, after, until): Promise<AttemptCount> {
      const [found] = await durable.run<{ at: number }>(selectReach, [endpoint, after, until])
      const reached = found?.at ?? until
      const [row] = await durable.run<{ delivered: number; failed: number }>(countRange, [endpoint, after, reached])
      return { delivered: row?.delivered ?? 0, failed: row?.failed ?? 0, reached }
    },

    async countWaiting(endpoint, limit) {
      const [row] = await durable.run<{ count: number }>(countPending, [endpoint, limit])
      return row?.count ?? 0
    },
  }
}
