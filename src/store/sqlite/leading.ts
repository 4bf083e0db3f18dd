import type { Candidate, Lead, Leader, Leading } from '../leading.ts'
import type { Connection, Synchronous } from './connection.ts'

const selectLeader = 'select * from leader where one = 1'
const takeLead = `
  insert into leader (one, candidate, description, epoch, since, lease_ms, lease_until) values (1, ?1, ?2, 1, ?3, ?4, ?3 + ?4)
  on conflict (one) do update
    set candidate = ?1, description = ?2, epoch = epoch + 1, since = ?3, lease_ms = ?4, lease_until = ?3 + ?4`
const extendLead = 'update leader set lease_ms = ?2, lease_until = ?1 + ?2 where one = 1'
// The row stays, so that the next leader's epoch is higher.
const endLead = 'update leader set lease_until = 0, lease_ms = 0 where candidate = ?'
const endAnyLead = 'update leader set lease_until = 0, lease_ms = 0'

interface LeaderRow {
  readonly candidate: string
  readonly description: string
  readonly epoch: number
  readonly since: number
  readonly lease_ms: number
  readonly lease_until: number
}

/** Who leads. */
export function leading(connection: Connection): Synchronous<Leading> {
  const current = connection.prepare<LeaderRow>(selectLeader)
  const take = connection.prepare(takeLead)
  const extend = connection.prepare(extendLead)
  const end = connection.prepare(endLead)

  return {
    lead({ id, description }: Candidate, leaseMs): Lead {
      return connection.transaction(() => {
        const now = connection.now()
        const ms = Math.round(leaseMs)
        const row = current.get()
        const leftMs = row === undefined ? 0 : left(row, now)
        if (row !== undefined && leftMs > 0) {
          if (row.candidate !== id) return { leads: false, epoch: row.epoch, leftMs }
          extend.run(now, ms)
          return { leads: true, epoch: row.epoch, leftMs: ms }
        }
        take.run(id, description, now, ms)
        return { leads: true, epoch: (row?.epoch ?? 0) + 1, leftMs: ms }
      })
    },

    resign({ id }): void {
      connection.transaction(() => end.run(id))
    },

    leader(): Leader | undefined {
      const row = current.get()
      const now = connection.now()
      if (row === undefined || left(row, now) <= 0) return undefined
      return { description: row.description, epoch: row.epoch, sinceMs: Math.max(0, now - row.since) }
    },
  }
}

/** Ends the lead of whoever had it: for the process that has just proved that it alone owns the file. */
export function endLeadership(connection: Connection): void {
  connection.prepare(endAnyLead).run()
}

/** A lease that reaches further than it is long was written before the clock was set back, and says nothing any more. */
function left({ lease_ms: leaseMs, lease_until: until }: LeaderRow, now: number): number {
  return until - now > leaseMs ? 0 : until - now
}
