import type { Leading } from '../maintenance.ts'
import type { Methods, Port, Sql, Work } from './port.ts'
import { statement } from './statement.ts'

interface LeaderRow {
  readonly description: string
  readonly epoch: number
  readonly since_ms: number
  readonly left_ms: number
}

// One statement and one row: a second candidate waits for the row, sees the lease of the first and changes nothing. A
// lease that reaches further than it is long was written before the clock was set back, and counts as ended.
const takeLead = statement<{ epoch: number; left_ms: number }>(
  'lead',
  `insert into leader (one, candidate, description, epoch, since, lease_ms, lease_until)
   values (1, :id, :description, 1, :now, cast(:lease_ms as bigint), :now + cast(:lease_ms as bigint))
   on conflict (one) do update
      set candidate = excluded.candidate, description = excluded.description, lease_ms = excluded.lease_ms,
          epoch = case when leader.candidate = excluded.candidate and leader.lease_until > excluded.since
                       then leader.epoch else leader.epoch + 1 end,
          since = case when leader.candidate = excluded.candidate and leader.lease_until > excluded.since
                       then leader.since else excluded.since end,
          lease_until = excluded.lease_until
    where leader.candidate = excluded.candidate or leader.lease_until <= excluded.since
       or leader.lease_until > excluded.since + leader.lease_ms
   returning epoch, lease_ms as left_ms`,
)
const selectLeader = statement<LeaderRow>(
  'leader',
  `select description, epoch, :now - since as since_ms,
          case when lease_until - :now > lease_ms then 0 else lease_until - :now end as left_ms
     from leader where one = 1`,
)
// The row stays, so that the next leader's epoch is higher.
const endLead = statement(
  'end-lead',
  'update leader set lease_until = 0, lease_ms = 0 where one = 1 and candidate = :id',
)
const endAnyLead = statement('end-any-lead', 'update leader set lease_until = 0, lease_ms = 0 where one = 1')

/** The process that does the work that is done once for the whole store. */
export function leading(port: Port): Methods<Leading> {
  return {
    *lead({ id, description }, leaseMs) {
      const taken = yield* port.first(takeLead, { id, description, lease_ms: Math.round(leaseMs) })
      if (taken) return { leads: true, epoch: taken.epoch, leftMs: taken.left_ms }
      const row = yield* port.first(selectLeader)
      return { leads: false, epoch: row?.epoch ?? 0, leftMs: Math.max(0, row?.left_ms ?? 0) }
    },

    *resign({ id }) {
      yield* port.all(endLead, { id })
    },

    *leader() {
      const row = yield* port.first(selectLeader)
      if (row === undefined || row.left_ms <= 0) return undefined
      return { description: row.description, epoch: row.epoch, sinceMs: Math.max(0, row.since_ms) }
    },
  }
}

/** Ends the lead of any process: for the one that has just proved that it alone owns the file. */
export function* endLeadership(sql: Sql): Work<void> {
  yield* sql.all(endAnyLead)
}
