import type { Class } from '../../domain/delivery.ts'
import { type Flow, toFlow } from '../../domain/flow.ts'
import { type Bounding, type PendingRow, type RestingEnd, type RestingLane, untried } from '../delivering.ts'
import { keepForFile, letterColumns } from '../sql/dead-filing.ts'
import { nextExpired, type PendingColumns, pendingColumns, toPendingRow } from '../sql/pending-rows.ts'
import { integers, texts } from './arrays.ts'
import { type Database, withClock } from './database.ts'
import { withWalk } from './lane-wakes.ts'
import { postgresStatement } from './sessions.ts'

const storedColumns =
  'class, due_at, message, since, attempts, prior_attempts, order_key, held_until, expires_at, variant'
const rowColumns = `p.class, ${pendingColumns('p', 'clock.now')}`

/** One seek of pending's primary key per endpoint, and one per class of each resting lane, however many rows it has. */
const findResting = postgresStatement(
  'find-resting',
  `
    ${withWalk}, walked as materialized (
      select max(endpoint) as last, count(endpoint) as looked from walk
    ), resting as materialized (
      select walk.endpoint, lane.app, e.flow, e.retry
        from walk cross join lateral (
               select app from lane where endpoint = walk.endpoint and owner is null limit 1
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
      ) as found on true`,
)

/** For each class a range of pending's primary key. */
export const readFronts = postgresStatement(
  'read-fronts',
  `
    ${withClock}
    select ${rowColumns}
      from clock, unnest('{0,1,2}'::smallint[]) as c (class)
     cross join lateral (
             select ${storedColumns} from pending where endpoint = $1 and class = c.class order by due_at, message limit $2
           ) as p`,
)

/** Leans on pending_expires. Rows of owned lanes are read and left out, so that each page is bounded. */
const findExpired = postgresStatement(
  'find-expired',
  `
    ${withClock}, page as materialized (
      select endpoint, ${storedColumns} from pending
       where expires_at >= $1 and expires_at <= (select now from clock) order by expires_at limit $2
    )
    select p.endpoint, p.expires_at, lane.app, ${rowColumns}
      from clock, page p left join lateral (
             select app from lane where endpoint = p.endpoint and owner is null limit 1
           ) as lane on true
     order by p.expires_at`,
)

/**
 * Lanes are locked for as long as this takes, if unowned and not locked already, so that no worker claims them meanwhile.
 * Rows are locked before they are deleted by their place. The statement waits for no lock, so it cannot deadlock; the next
 * sweep finds the rows that this one passed over.
 */
const endRows = postgresStatement(
  'end-resting',
  `
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
      select * from found where place in (select place from taken)
    ), dead as (
      insert into dead (${letterColumns})
      select distinct on (endpoint, message)
             endpoint, message, app, reason, attempts, now, since, ${untried.status}, '${untried.code}', null, null
        from clock, ended order by endpoint, message
      on conflict (endpoint, message) do update
        set app = excluded.app, reason = excluded.reason, attempts = excluded.attempts, died_at = excluded.died_at,
            since = excluded.since, status = excluded.status, code = excluded.code, error = excluded.error,
            response = excluded.response
      returning ${letterColumns}
    ), kept as (
      ${keepForFile('dead where true')}
    )
    select n from ended order by n`,
)

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

interface ExpiredRow extends RowColumns {
  readonly endpoint: number
  readonly expires_at: number
  /** Null when the lane has an owner. */
  readonly app: number | null
}

/** Ends deliveries that wait too long or are too many, in unowned lanes. */
export function bounding({ relaxed }: Database): Bounding {
  return {
    async readResting(after, limit) {
      const rows = await relaxed.run<RestingRow>(findResting, [after ?? -1, limit])
      const { last, looked } = rows[0] as RestingRow
      return { lanes: lanesOf(rows), next: looked < limit ? null : last }
    },

    async readFronts(endpoint, limit) {
      return (await relaxed.run<RowColumns>(readFronts, [endpoint, limit])).map(toRow)
    },

    async readExpired(from, limit) {
      const rows = await relaxed.run<ExpiredRow>(findExpired, [from ?? 0, limit])
      const deliveries = rows.flatMap((row) =>
        row.app === null ? [] : [{ endpoint: row.endpoint, app: row.app, row: toRow(row) }],
      )
      return { deliveries, next: nextExpired(rows, from, limit) }
    },

    async endResting(ends) {
      if (ends.length === 0) return []
      const rows = await relaxed.run<{ n: number }>(endRows, valuesOf(ends))
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

function valuesOf(ends: readonly RestingEnd[]): string[] {
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
