import { type Class, fresh, timed } from '../../domain/delivery.ts'
import { type Flow, toFlow } from '../../domain/flow.ts'
import {
  type Deliveries,
  type DueRead,
  type DueRows,
  type Outgoing,
  type PendingRow,
  type RestingEnd,
  type RestingLane,
  untried,
} from '../delivering.ts'
import { type PendingColumns, pendingColumns, spanOf, spanOfKeys, toPendingRow } from '../sql/message-rows.ts'
import { type Database, isAmong, withClock } from './database.ts'
import { withWalk } from './lane-wakes.ts'
import { booleans, integers, postgresStatement, texts } from './sessions.ts'
import { withDead } from './settle-statement.ts'
import { settling } from './settling.ts'

/**
 * The head of any number of queues in one statement: for each, a range of pending's primary key in its order. Only timed
 * rows have an upper end; for them a second seek finds when the next one is due.
 */
const readPending = postgresStatement('read-due')`
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
     where read.class = ${timed}`

export const outgoingColumns = `
  key, id, event_type as "eventType", content_type as "contentType", headers, trace,
  arrived_headers as "arrivedHeaders", body`

/** One probe of pending's primary key for each name, and one of message's for each message that is wanted. */
const readNamedRows = postgresStatement('read-named')`
    ${withClock}
    select wanted.endpoint, ${pendingColumns('p', 'clock.now')}, m.*
      from clock, unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[])
                    as wanted (endpoint, due_at, message, with_message)
     cross join lateral (
             select message, due_at, attempts, prior_attempts, since, order_key, held_until, expires_at, variant
               from pending
              where endpoint = wanted.endpoint and class = ${fresh} and due_at = wanted.due_at
                and message = wanted.message
              limit 1
           ) as p
      left join lateral (
             select ${outgoingColumns} from message
              where wanted.with_message and key = wanted.message and key >= $5 and key <= $6 and expunged_at is null
              limit 1
           ) as m on true`

// Leans on message's primary key. The range leaves out the days that none of the keys belongs to, as `inSpan` does.
const loadOutgoing = postgresStatement('load-messages')`
    select ${outgoingColumns}, null as variant, null as signature
      from message where key = any ($1::bigint[]) and key >= $2 and key <= $3 and expunged_at is null`

// Without its row, a delivery that has a variant is not sent.
const loadOutgoingVariants = postgresStatement('load-variants')`
    select m.key, m.id, m.event_type as "eventType", m.content_type as "contentType", m.headers, m.trace,
           m.arrived_headers as "arrivedHeaders",
           coalesce(v.body, m.body) as body, w.n as variant, v.signature
      from unnest($1::bigint[], $2::smallint[]) as w (message, n)
     cross join lateral (select body, signature from variant
              where message = w.message and n = w.n and message >= $3 and message <= $4 limit 1) as v
     cross join lateral (
             select key, id, event_type, content_type, headers, trace, arrived_headers, body from message
              where key = w.message and key >= $3 and key <= $4 and expunged_at is null limit 1
           ) as m`

type NamedColumns = PendingColumns & { readonly endpoint: number } & (
    | Omit<Outgoing, 'variant' | 'signature'>
    | { readonly key: null }
  )

export function toOutgoing(row: Omit<Outgoing, 'variant' | 'signature'>): Outgoing {
  const { key, id, eventType, contentType, headers, trace, arrivedHeaders, body } = row
  return { key, id, eventType, contentType, headers, trace, arrivedHeaders, body, variant: null, signature: null }
}

/** Without a message, `dueAt` is how long until the next timed row is due. */
type ReadRow = { readonly n: number } & (PendingColumns | { readonly message: null; readonly dueAt: number })

function valuesOfReads(reads: readonly DueRead[]): unknown[] {
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
      if (page.rows.length < read.limit) page.nextInMs = row.dueAt
      continue
    }
    page.rows.push(toPendingRow(row, read.class))
  }
  return pages
}

const storedColumns =
  'class, due_at, message, since, attempts, prior_attempts, order_key, held_until, expires_at, variant'
const rowColumns = `p.class, ${pendingColumns('p', 'clock.now')}`

/** One seek of pending's primary key per endpoint, and one per class of each resting lane, however many rows it has. */
const findResting = postgresStatement('find-resting')`
    ${withWalk}, walked as materialized (
      select max(endpoint) as last, count(endpoint) as looked from walk
    ), resting as materialized (
      select walk.endpoint, lane.app, e.flow, e.retry
        from clock cross join walk cross join lateral (
               select app from lane
                where endpoint = walk.endpoint and owner is null
                  and (due_at is null or due_at not between clock.now - $3 + 1 and clock.now)
                limit 1
             ) as lane
       cross join lateral (
               select flow, retry from endpoint where key = walk.endpoint and deleted_at is null limit 1
             ) as e
       where walk.endpoint is not null
    )
    select walked.last, walked.looked, found.*
      from walked left join (
        select resting.*, ${rowColumns}
          from clock, resting cross join unnest('{0,1,2}'::smallint[]) as c (class)
         cross join lateral (
                 select ${storedColumns} from pending
                  where endpoint = resting.endpoint and class = c.class order by due_at, message limit 1
               ) as p
      ) as found on true`

/** For each class a range of pending's primary key. */
const readFronts = postgresStatement('read-fronts')`
    ${withClock}
    select ${rowColumns}
      from clock, unnest('{0,1,2}'::smallint[]) as c (class)
     cross join lateral (
             select ${storedColumns} from pending where endpoint = $1 and class = c.class order by due_at, message limit $2
           ) as p`

/**
 * Lanes are locked for as long as this takes, if unowned and not locked already, so that no worker claims them meanwhile.
 * Rows are locked before they are deleted by their place. The statement waits for no lock, so it cannot deadlock; the next
 * sweep finds the rows that this one passed over.
 */
const endRows = postgresStatement('end-resting')`
    ${withClock}, unowned as materialized (
      select endpoint from lane where endpoint = any ($7::bigint[]) and owner is null for update skip locked
    ), wanted as materialized (
      select w.* from unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[])
               with ordinality as w (endpoint, class, due_at, message, app, reason, n)
       where endpoint = any (array (select endpoint from unowned))
    ), found as materialized (
      select w.*, p.*
        from wanted w cross join lateral (
               select ctid as place, since, attempts from pending
                where endpoint = w.endpoint and class = w.class and due_at = w.due_at and message = w.message
                limit 1 for update skip locked
             ) as p
    ), taken as (
      delete from pending where ctid = any (array (select place from found))
      returning ctid as place
    ), ended as materialized (
      select * from found where ${isAmong('place', 'select place from taken')}
    ), ${withDead(
      `endpoint, message, app, reason, attempts, now, since, ${untried.status}, '${untried.code}', null, null`,
      'clock, ended',
    )}
    select n from ended order by n`

type RowColumns = PendingColumns & { readonly class: Class }

interface RestingRow extends RowColumns {
  /** Null when nothing at all waits. */
  readonly last: number | null
  readonly looked: number
  /** Null when none of the lanes rests. */
  readonly endpoint: number | null
  readonly app: number
  readonly flow: Partial<Flow> | null
  readonly retry: RestingLane['retry']
}

/** Reads due deliveries, settles them, and ends those that wait too long or are too many in unowned lanes. */
export function delivering(database: Database): Omit<Deliveries, 'readExpired'> {
  const { relaxed } = database
  return {
    async readDue(reads) {
      if (reads.length === 0) return []
      return pagesOf(reads, await relaxed.run<ReadRow>(readPending, valuesOfReads(reads)))
    },

    async readNamed(names) {
      if (names.length === 0) return { rows: [], messages: [] }
      const { first, last } = spanOf(names)
      const values = [
        integers(names.map(({ endpoint }) => endpoint)),
        integers(names.map(({ dueAt }) => dueAt)),
        integers(names.map(({ message }) => message)),
        booleans(names.map(({ withMessage }) => withMessage)),
      ]
      const found = await relaxed.run<NamedColumns>(readNamedRows, [...values, first, last])
      return {
        rows: found.map((row) => ({ endpoint: row.endpoint, ...toPendingRow(row, fresh) })),
        messages: found.flatMap((row) => (row.key === null ? [] : [toOutgoing(row)])),
      }
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

    async readResting(after, limit, wakingMs = 0) {
      const rows = await relaxed.run<RestingRow>(findResting, [after ?? -1, limit, wakingMs])
      const { last, looked } = rows[0] as RestingRow
      return { lanes: lanesOf(rows), next: looked < limit ? null : last }
    },

    async readFronts(endpoint, limit) {
      return (await relaxed.run<RowColumns>(readFronts, [endpoint, limit])).map(toRow)
    },

    async endResting(ends) {
      if (ends.length === 0) return []
      const rows = await relaxed.run<{ n: number }>(endRows, valuesOfEnds(ends))
      return rows.map(({ n }) => ends[n - 1] as RestingEnd)
    },
  }
}

function lanesOf(rows: readonly RestingRow[]): RestingLane[] {
  const lanes = new Map<number, RestingLane & { rows: PendingRow[] }>()
  for (const row of rows) {
    if (row.endpoint === null) continue
    const { endpoint, app, flow, retry } = row
    const known = lanes.get(endpoint)
    if (known) known.rows.push(toRow(row))
    else lanes.set(endpoint, { endpoint, app, flow: toFlow(flow), retry, rows: [toRow(row)] })
  }
  return [...lanes.values()]
}

function valuesOfEnds(ends: readonly RestingEnd[]): string[] {
  return [
    integers(ends.map(({ endpoint }) => endpoint)),
    integers(ends.map(({ row }) => row.class)),
    integers(ends.map(({ row }) => row.dueAt)),
    integers(ends.map(({ row }) => row.message)),
    integers(ends.map(({ app }) => app)),
    texts(ends.map(({ reason }) => reason)),
    integers([...new Set(ends.map(({ endpoint }) => endpoint))]),
  ]
}

function toRow(row: RowColumns): PendingRow {
  return toPendingRow(row, row.class)
}
