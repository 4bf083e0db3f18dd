import type { EpochMs } from '../../domain/clock.ts'
import { classes, fresh, timed } from '../../domain/delivery.ts'
import { toFlow } from '../../domain/flow.ts'
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
import {
  type PendingColumns,
  type PendingValues,
  pendingColumns,
  pendingRow,
  toPendingRow,
} from '../sql/message-rows.ts'
import { fromJson } from '../sql/statement.ts'
import type { Connection, MaybeSynchronous } from './connection.ts'
import { deadLetterWriter, settling } from './settling.ts'
import { shortQueues, shortRows } from './short-queues.ts'

// Both are ranges of pending's primary key, read in its order. With a bare `limit ?6`, SQLite would plan them at each use.
const selectFrom = `
  select ${pendingColumns('pending', '?1')} from pending where endpoint = ?2 and class = ?3 and (due_at, message) > (?4, ?5)`
const selectPending = `${selectFrom} order by due_at, message limit +?6`
const selectTimed = `${selectFrom} and due_at <= ?1 order by due_at, message limit +?6`
const selectNamed = `
  select ${pendingColumns('pending', '?1')} from pending
   where endpoint = ?2 and class = ${fresh} and due_at = ?3 and message = ?4`
const selectNextTimed = 'select min(due_at) as due_at from pending where endpoint = ? and class = 1 and due_at > ?'
const selectOutgoing = `
  select key, id, event_type, body, content_type, headers, trace, arrived_headers, null, null
  from message where key = ? and expunged_at is null`
// Without its row, a delivery that has a variant is not sent.
const selectVariant = `
  select message.key, id, event_type, coalesce(variant.body, message.body), content_type, headers, trace, arrived_headers,
    n, signature
  from variant join message on message.key = variant.message
  where variant.message = ? and n = ? and expunged_at is null`

/** An `Outgoing` as SQLite has it: headers are text. */
type OutgoingValues = readonly [
  key: number,
  id: string,
  eventType: string,
  body: Uint8Array,
  contentType: string,
  headers: string | null,
  trace: string | null,
  arrivedHeaders: string | null,
  variant: number | null,
  signature: string | null,
]

function outgoingOf(
  ...[key, id, eventType, body, contentType, headers, trace, arrived, variant, signature]: OutgoingValues
): Outgoing {
  const own: Outgoing['headers'] = fromJson(headers)
  const arrivedHeaders: Outgoing['arrivedHeaders'] = fromJson(arrived)
  return { key, id, eventType, body, contentType, headers: own, trace, arrivedHeaders, variant, signature }
}

function toOutgoing(values: OutgoingValues | undefined): Outgoing[] {
  return values === undefined ? [] : [outgoingOf(...values)]
}

// One seek of pending's primary key, however many rows an endpoint has.
const selectNextEndpoint = 'select min(endpoint) as endpoint from pending where endpoint > ?'
const selectResting = `
  select lane.app, endpoint.flow, endpoint.retry from lane join endpoint on endpoint.key = lane.endpoint
  where lane.endpoint = ?1 and lane.owner is null and (lane.due_at is null or lane.due_at not between ?2 and ?3)
    and endpoint.deleted_at is null`
const rowColumns = pendingColumns('pending', ':now')
const selectFront = `
  select ${rowColumns} from pending where endpoint = :endpoint and class = :class order by due_at, message limit +:limit`
const selectUnowned = 'select 1 from lane where endpoint = ? and owner is null'
const takePending = `
  delete from pending where endpoint = ? and class = ? and due_at = ? and message = ? returning since, attempts`

interface RestingRow {
  readonly app: number
  readonly flow: string | null
  readonly retry: string | null
}

/** Whether a read begins at the front of this queue and may bring all of a short one. */
function isFromFront({ endpoint, after, limit }: DueRead, of: number): boolean {
  return endpoint === of && after === null && limit >= shortRows
}

/** Reads due deliveries, settles them, and ends those that wait too long or are too many in unowned lanes. */
export function delivering(connection: Connection): MaybeSynchronous<Omit<Deliveries, 'readExpired'>> {
  const pending = connection.prepareLists<PendingValues>(selectPending)
  const timedRows = connection.prepareLists<PendingValues>(selectTimed)
  const namedRow = connection.prepareLists<PendingValues>(selectNamed)
  const shortQueue = shortQueues(connection)
  const nextTimed = connection.prepare<{ due_at: EpochMs | null }>(selectNextTimed)
  const outgoing = connection.prepareLists<OutgoingValues>(selectOutgoing)
  const outgoingVariant = connection.prepareLists<OutgoingValues>(selectVariant)
  const nextEndpoint = connection.prepare<{ endpoint: number | null }>(selectNextEndpoint)
  const resting = connection.prepare<RestingRow>(selectResting)
  const front = connection.prepare<PendingColumns>(selectFront)
  const unowned = connection.prepare<unknown>(selectUnowned)
  const take = connection.prepare<{ since: EpochMs; attempts: number }>(takePending)
  const addDead = deadLetterWriter(connection)

  function readOne({ endpoint, class: rowClass, after, limit }: DueRead, now: EpochMs): DueRows {
    const isTimed = rowClass === timed
    const query = isTimed ? timedRows : pending
    const rows = query.all(now, endpoint, rowClass, after?.dueAt ?? -1, after?.message ?? -1, limit)
    const next = isTimed && rows.length < limit ? nextTimed.get(endpoint, now)?.due_at : undefined
    return {
      rows: rows.map((values) => pendingRow(rowClass, ...values)),
      nextInMs: next == null ? undefined : next - now,
    }
  }

  function readAll(reads: readonly DueRead[], now: EpochMs): DueRows[] {
    const pages: DueRows[] = []
    for (let at = 0; at < reads.length; ) {
      const { endpoint } = reads[at] as DueRead
      const asked = reads.slice(at, at + classes.length)
      const isWhole = asked.length === classes.length && asked.every((read) => isFromFront(read, endpoint))
      const found = isWhole ? shortQueue(endpoint, now) : undefined
      if (found === undefined) pages.push(readOne(reads[at] as DueRead, now))
      else for (const read of asked) pages.push(found.pages[read.class])
      at = pages.length
    }
    return pages
  }

  function frontsOf(endpoint: number, limit: number, now: EpochMs): PendingRow[] {
    return classes.flatMap((c) => front.all({ endpoint, class: c, limit, now }).map((row) => toPendingRow(row, c)))
  }

  function end({ endpoint, app, row, reason }: RestingEnd, now: EpochMs): boolean {
    if (unowned.get(endpoint) === undefined) return false
    const taken = take.get(endpoint, row.class, row.dueAt, row.message)
    if (taken === undefined) return false
    addDead({ ...untried, ...taken, endpoint, message: row.message, app, reason, diedAt: now })
    return true
  }

  return {
    async readDue(reads): Promise<DueRows[]> {
      const now = connection.now()
      const pages = readAll(reads, now)
      // Some of them may be of a publish that a power cut could still undo.
      await connection.publishing
      return pages
    },

    async readNamed(names) {
      const now = connection.now()
      const found = names.flatMap(({ endpoint, message, dueAt, withMessage }) => {
        const values = namedRow.get(now, endpoint, dueAt, message)
        return values === undefined ? [] : [{ row: { endpoint, ...pendingRow(fresh, ...values) }, withMessage }]
      })
      const wanted = found.flatMap(({ row, withMessage }) => (withMessage ? toOutgoing(outgoing.get(row.message)) : []))
      await connection.publishing
      return { rows: found.map(({ row }) => row), messages: wanted }
    },

    loadMessages: (keys) => keys.flatMap((key) => toOutgoing(outgoing.get(key))),

    loadVariants: (keys) => keys.flatMap(({ message, variant }) => toOutgoing(outgoingVariant.get(message, variant))),

    settle: settling(connection),

    readResting(after, limit, wakingMs = 0) {
      const now = connection.now()
      const lanes: RestingLane[] = []
      let cursor = after ?? -1
      for (let looked = 0; looked < limit; looked++) {
        const endpoint = nextEndpoint.get(cursor)?.endpoint ?? null
        if (endpoint === null) return { lanes, next: null }
        cursor = endpoint
        const found = resting.get(endpoint, now - wakingMs + 1, now)
        if (found === undefined) continue
        const { app, flow, retry } = found
        const bounds = { flow: toFlow(fromJson(flow)), retry: fromJson<RestingLane['retry']>(retry) }
        lanes.push({ endpoint, app, ...bounds, rows: frontsOf(endpoint, 1, now) })
      }
      return { lanes, next: cursor }
    },

    readFronts: (endpoint, limit) => frontsOf(endpoint, limit, connection.now()),

    endResting(ends) {
      if (ends.length === 0) return []
      return connection.transaction(() => {
        const now = connection.now()
        return ends.filter((each) => end(each, now))
      })
    },
  }
}
