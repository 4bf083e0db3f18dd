import type { EpochMs } from '../../domain/clock.ts'
import { type AttemptCount, attemptsPerCount, type Statistics } from '../statistics.ts'
import type { Connection, Synchronous } from './connection.ts'

// Both lean on attempt_endpoint. What happened in one millisecond is counted together, so that none is missed or counted
// twice where one count ends and the next begins.
const selectReach = `
  select at from attempt where endpoint = ? and at > ? and at <= ? order by at limit 1 offset ${attemptsPerCount - 1}`
const countRange = `
  select count(*) as attempts, coalesce(sum(code = 'delivered'), 0) as delivered
  from attempt where endpoint = ? and at > ? and at <= ?`
const countPending = 'select count(*) as count from (select 1 from pending where endpoint = ? limit ?)'

/** Numbers for people. */
export function statistics(connection: Connection): Synchronous<Statistics> {
  const reach = connection.prepare<{ at: EpochMs }>(selectReach)
  const range = connection.prepare<{ attempts: number; delivered: number }>(countRange)
  const pending = connection.prepare<{ count: number }>(countPending)

  return {
    countAttempts(endpoint, after, until): AttemptCount {
      const reached = reach.get(endpoint, after, until)?.at ?? until
      const { attempts = 0, delivered = 0 } = range.get(endpoint, after, reached) ?? {}
      return { delivered, failed: attempts - delivered, reached }
    },

    countWaiting(endpoint, limit): number {
      return pending.get(endpoint, limit)?.count ?? 0
    },
  }
}
