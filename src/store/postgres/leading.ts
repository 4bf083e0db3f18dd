import type { Lead, Leader, Leading } from '../leading.ts'
import type { Database } from './database.ts'
import { withClock } from './server-time.ts'
import type { Statement } from './sessions.ts'

// One statement and one row: whoever comes second waits for the row, sees the lease of the first and changes nothing. A
// lease that reaches further than it is long was written before the clock was set back.
const takeLead: Statement = {
  name: 'lead',
  text: `
    ${withClock}
    insert into leader (one, candidate, description, epoch, since, lease_ms, lease_until)
    select 1, $1, $2, 1, now, $3, now + $3 from clock
    on conflict (one) do update
       set candidate = excluded.candidate, description = excluded.description, lease_ms = excluded.lease_ms,
           epoch = case when leader.candidate = $1 and leader.lease_until > excluded.since
                        then leader.epoch else leader.epoch + 1 end,
           since = case when leader.candidate = $1 and leader.lease_until > excluded.since
                        then leader.since else excluded.since end,
           lease_until = excluded.lease_until
     where leader.candidate = $1 or leader.lease_until <= excluded.since
        or leader.lease_until > excluded.since + leader.lease_ms
    returning epoch, lease_ms as left_ms`,
}
const selectLeader: Statement = {
  name: 'leader',
  text: `
    ${withClock}
    select description, epoch, now - since as since_ms,
           case when lease_until - now > lease_ms then 0 else lease_until - now end as left_ms
      from clock, leader where one = 1`,
}
// The row stays, so that the next leader's epoch is higher.
const endLead: Statement = {
  name: 'end-lead',
  text: 'update leader set lease_until = 0, lease_ms = 0 where one = 1 and candidate = $1',
}

interface LeaderRow {
  readonly description: string
  readonly epoch: number
  readonly since_ms: number
  readonly left_ms: number
}

/** Who leads. */
export function leading({ durable }: Database): Leading {
  return {
    async lead({ id, description }, leaseMs): Promise<Lead> {
      const values = [id, description, Math.round(leaseMs)]
      const [taken] = await durable.run<{ epoch: number; left_ms: number }>(takeLead, values)
      if (taken) return { leads: true, epoch: taken.epoch, leftMs: taken.left_ms }
      const [row] = await durable.run<LeaderRow>(selectLeader)
      return { leads: false, epoch: row?.epoch ?? 0, leftMs: Math.max(0, row?.left_ms ?? 0) }
    },

    async resign({ id }) {
      await durable.run(endLead, [id])
    },

    async leader(): Promise<Leader | undefined> {
      const [row] = await durable.run<LeaderRow>(selectLeader)
      if (row === undefined || row.left_ms <= 0) return undefined
      return { description: row.description, epoch: row.epoch, sinceMs: Math.max(0, row.since_ms) }
    },
  }
}
