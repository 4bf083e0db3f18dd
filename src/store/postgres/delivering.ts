import { timed } from '../../domain/delivery.ts'
import type { Delivering, DueRead, DueRows, Outgoing, PendingRow } from '../delivering.ts'
import { spanOf, spanOfKeys } from '../sql/message-rows.ts'
import { type PendingColumns, pendingColumns, toPendingRow } from '../sql/pending-rows.ts'
import { integers } from './arrays.ts'
import { type Database, withClock } from './database.ts'
import { postgresStatement } from './sessions.ts'
import { settling } from './settling.ts'

/**
 * The head of any number of queues in one statement: for each, a range of pending's primary key in its order. Only timed
 * rows have an upper end; for them a second seek finds when the next one is due.
 */
const readPending = postgresStatement(
  'read-due',
  `
    ${withClock}, read as materialized (
      select read.*, clock.now,
             case when class = ${timed} then clock.now else ${Number.MAX_SAFE_INTEGER} end as until
        from clock, unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::integer[])
               with ordinality as read (endpoint, class, after_due_at, after_message, most, n)
    )
    select read.n, ${pendingColumns('p', 'read.now')}
      from read cross join lateral (
        select message, due_at, attempts, prior_attempts, since, order_key, held_until, expires_at, variant from pending
         where endpoint = read.endpoint and class = read.class
           and (due_at, message) > (read.after_due_at, read.after_message) and due_at <= read.until
         order by due_at, message limit read.most
      ) as p
    union all
    select read.n, null, next.due_at - read.now, null, null, null, null, null, null, null, null
      from read cross join lateral (
        select due_at from pending
         where endpoint = read.endpoint and class = ${timed} and due_at > read.now
         order by due_at limit 1
      ) as next
     where read.class = ${timed}`,
)

// Leans on message's primary key. The range leaves out the days that none of the keys belongs to, as `inSpan` does.
const loadOutgoing = postgresStatement(
  'load-messages',
  `
    select key, id, event_type as "eventType", content_type as "contentType", headers, trace,
           arrived_headers as "arrivedHeaders", body, null as variant, null as signature
      from message where key = any ($1::bigint[]) and key >= $2 and key <= $3 and expunged_at is null`,
)

// Without its row, a delivery that has a variant is not sent.
const loadOutgoingVariants = postgresStatement(
  'load-variants',
  `
    select m.key, m.id, m.event_type as "eventType", m.content_type as "contentType", m.headers, m.trace,
           m.arrived_headers as "arrivedHeaders",
           coalesce(v.body, m.body) as body, w.n as variant, v.signature
      from unnest($1::bigint[], $2::smallint[]) as w (message, n)
     cross join lateral (select body, signature from variant
              where message = w.message and n = w.n and message >= $3 and message <= $4 limit 1) as v
     cross join lateral (
             select key, id, event_type, content_type, headers, trace, arrived_headers, body from message
              where key = w.message and key >= $3 and key <= $4 and expunged_at is null limit 1
           ) as m`,
)

/** Without a message, `due_at` is how long until the next timed row is due. */
type ReadRow = { readonly n: number } & (PendingColumns | { readonly message: null; readonly due_at: number })

/** Reads due deliveries and settles them. */
export function delivering(database: Database): Delivering {
  const { relaxed } = database
  return {
    async readDue(reads) {
      if (reads.length === 0) return []
      return pagesOf(reads, await relaxed.run<ReadRow>(readPending, valuesOf(reads)))
    },

    async loadMessages(keys) {
      if (keys.length === 0) return []
      const { first, last } = spanOfKeys(keys)
      return relaxed.run<Outgoing>(loadOutgoing, [integers(keys), first, last])
    },

    async loadVariants(keys) {
      if (keys.length === 0) return []
      const { first, last } = spanOf(keys)
      const values = [integers(keys.map(({ message }) => message)), integers(keys.map(({ variant }) => variant))]
      return relaxed.run<Outgoing>(loadOutgoingVariants, [...values, first, last])
    },

    settle: settling(database),
  }
}

function valuesOf(reads: readonly DueRead[]): unknown[] {
  return [
    integers(reads.map((read) => read.endpoint)),
    integers(reads.map((read) => read.class)),
    integers(reads.map((read) => read.after?.dueAt ?? -1)),
    integers(reads.map((read) => read.after?.message ?? -1)),
    integers(reads.map((read) => read.limit)),
  ]
}

/** Sorts the rows, which arrive read by read and in order, into one page per read. */
function pagesOf(reads: readonly DueRead[], rows: readonly ReadRow[]): DueRows[] {
  const pages = reads.map(() => ({ rows: [] as PendingRow[], nextInMs: undefined as number | undefined }))
  for (const row of rows) {
    const page = pages[row.n - 1] as (typeof pages)[number]
    const read = reads[row.n - 1] as DueRead
    if (row.message === null) {
      if (page.rows.length < read.limit) page.nextInMs = row.due_at
      continue
    }
    page.rows.push(toPendingRow(row, read.class))
  }
  return pages
}
