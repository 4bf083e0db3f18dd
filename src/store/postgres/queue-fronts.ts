import { type Class, fresh, replay, timed } from '../../domain/delivery.ts'
import { firstKeyAt } from '../../domain/ids.ts'
import type { DueRows, Outgoing, PendingRow, QueueFront } from '../delivering.ts'
import { type PendingColumns, pendingColumns, toPendingRow } from '../sql/message-rows.ts'
import { StoreTrouble } from '../store.ts'
import { type Database, withClock } from './database.ts'
import { outgoingColumns, toOutgoing } from './delivering.ts'
import { integers, postgresStatement } from './sessions.ts'

/** Rows of each class that come along with a lane. Most lanes that were just claimed have one or two. */
const frontRows = 8
/** Larger bodies are read when they are sent, a few at a time. */
const largestBody = 16 * 1024
/** Messages older than this are read when they are sent: each day is a partition, which a look for a message has to open. */
const youngMs = 24 * 60 * 60 * 1000

/**
 * The first rows of any number of queues, and the messages of the very first ones: a range of pending's primary key for each
 * class of each queue, and one probe of message's primary key for each message.
 */
const readQueueFronts = postgresStatement('read-fronts-of')`
    ${withClock}, lane as materialized (
      select lane.endpoint, lane.n, clock.now
        from clock, unnest($1::bigint[]) with ordinality as lane (endpoint, n)
    ), front as materialized (
      select lane.n, lane.now, c.class, p.*
        from lane cross join unnest('{0,1,2}'::smallint[]) as c (class)
       cross join lateral (
               select message, due_at, attempts, prior_attempts, since, order_key, held_until, expires_at, variant from pending
                where endpoint = lane.endpoint and class = c.class
                  and due_at <= case when c.class = ${timed} then lane.now else ${Number.MAX_SAFE_INTEGER} end
                order by due_at, message limit ${frontRows}
             ) as p
    ), wanted as materialized (
      select distinct message as wanted from (
        select distinct on (n) message, variant from front order by n, class, due_at
      ) as firsts where variant is null
    )
    select front.n, front.class, ${pendingColumns('front', 'front.now')}, null::bigint as "nextInMs", none.*
      from front left join (select ${outgoingColumns} from message where false) as none on false
    union all
    select lane.n, ${timed}, null, null, null, null, null, null, null, null, null, null, next.due_at - lane.now, none.*
      from lane cross join lateral (
             select due_at from pending
              where endpoint = lane.endpoint and class = ${timed} and due_at > lane.now order by due_at limit 1
           ) as next
      left join (select ${outgoingColumns} from message where false) as none on false
    union all
    select 0, 0, null, null, null, null, null, null, null, null, null, null, null, m.*
      from wanted cross join lateral (
             select ${outgoingColumns} from message
              where key = wanted.wanted and key >= $2 and expunged_at is null and length(body) <= ${largestBody} limit 1
           ) as m`

type FrontRow = { readonly n: number; readonly class: Class } & (
  | (PendingColumns & { readonly nextInMs: null; readonly key: null })
  | { readonly message: null; readonly nextInMs: number; readonly key: null }
  | ({ readonly message: null; readonly nextInMs: null } & Omit<Outgoing, 'variant' | 'signature'>)
)

interface Fronts {
  /** In the order of the lanes; all missing when the database was in trouble. */
  readonly fronts: readonly (QueueFront | undefined)[]
  readonly messages: readonly Outgoing[]
}

/**
 * Reads the first rows of lanes that a worker has just taken. A statement of its own, behind the commit of the claim: in the claim's
 * own snapshot a row would be missing that was committed meanwhile, and whose publisher has seen a lane without an owner; and
 * rows would show that a worker has settled which owned the lane in between.
 */
export async function readFronts({ relaxed, context }: Database, endpoints: readonly number[]): Promise<Fronts> {
  if (endpoints.length === 0) return { fronts: [], messages: [] }
  const youngest = firstKeyAt(Math.floor(context.clock.now()) - youngMs)
  let rows: FrontRow[]
  try {
    rows = await relaxed.run<FrontRow>(readQueueFronts, [integers(endpoints), youngest])
  } catch (error) {
    // The lanes are this worker's all the same, which reads their queues apart.
    if (error instanceof StoreTrouble) return { fronts: [], messages: [] }
    throw error
  }
  const read = endpoints.map((): [PendingRow[], PendingRow[], PendingRow[]] => [[], [], []])
  const next = new Map<number, number>()
  const messages: Outgoing[] = []
  for (const row of rows) {
    if (row.key !== null) messages.push(toOutgoing(row))
    else if (row.nextInMs !== null) next.set(row.n, row.nextInMs)
    else read[row.n - 1]?.[row.class].push(toPendingRow(row as PendingColumns, row.class))
  }
  const fronts = read.map((rows, i): QueueFront => {
    const page = (c: Class, nextInMs?: number): DueRows => ({ rows: rows[c], nextInMs })
    const isFull = rows[timed].length >= frontRows
    return {
      pages: [page(fresh), page(timed, isFull ? undefined : next.get(i + 1)), page(replay)],
      limit: frontRows,
    }
  })
  return { fronts, messages }
}
