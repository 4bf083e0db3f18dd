import type { EpochMs } from '../../domain/clock.ts'
import { timed } from '../../domain/delivery.ts'
import type { Delivering, DueRead, DueRows, Outgoing } from '../delivering.ts'
import { type PendingValues, pendingColumns, pendingRow } from '../sql/pending-rows.ts'
import { fromJson } from '../sql/statement.ts'
import type { Connection, MaybeSynchronous } from './connection.ts'
import { settling } from './settling.ts'

// Both are ranges of pending's primary key, read in its order. With a bare `limit ?6`, SQLite would plan them at each use.
const selectFrom = `
  select ${pendingColumns('pending', '?1')} from pending where endpoint = ?2 and class = ?3 and (due_at, message) > (?4, ?5)`
const selectPending = `${selectFrom} order by due_at, message limit +?6`
const selectTimed = `${selectFrom} and due_at <= ?1 order by due_at, message limit +?6`
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

/** Reads due deliveries and settles them. */
export function delivering(connection: Connection): MaybeSynchronous<Delivering> {
  const pending = connection.prepareLists<PendingValues>(selectPending)
  const timedRows = connection.prepareLists<PendingValues>(selectTimed)
  const nextTimed = connection.prepare<{ due_at: EpochMs | null }>(selectNextTimed)
  const outgoing = connection.prepareLists<OutgoingValues>(selectOutgoing)
  const outgoingVariant = connection.prepareLists<OutgoingValues>(selectVariant)

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

  return {
    async readDue(reads): Promise<DueRows[]> {
      const now = connection.now()
      const pages = reads.map((read) => readOne(read, now))
      // Some of them may be of a publish that a power cut could still undo.
      await connection.publishing
      return pages
    },

    loadMessages: (keys) => keys.flatMap((key) => toOutgoing(outgoing.get(key))),

    loadVariants: (keys) => keys.flatMap(({ message, variant }) => toOutgoing(outgoingVariant.get(message, variant))),

    settle: settling(connection),
  }
}
