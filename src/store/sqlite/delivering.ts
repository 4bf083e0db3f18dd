import type { EpochMs } from '../../domain/clock.ts'
import { timed } from '../../domain/delivery.ts'
import type { Delivering, DueRead, DueRows, Outgoing } from '../delivering.ts'
import { type PendingColumns, pendingColumns, toPendingRow } from '../sql/pending-rows.ts'
import { fromJson } from '../sql/statement.ts'
import type { Connection, MaybeSynchronous } from './connection.ts'
import { settling } from './settling.ts'

// Both are ranges of pending's primary key, read in its order.
const selectFrom = `
  select ${pendingColumns('pending', '?1')} from pending where endpoint = ?2 and class = ?3 and (due_at, message) > (?4, ?5)`
const selectPending = `${selectFrom} order by due_at, message limit ?6`
const selectTimed = `${selectFrom} and due_at <= ?1 order by due_at, message limit ?6`
const selectNextTimed = 'select min(due_at) as due_at from pending where endpoint = ? and class = 1 and due_at > ?'
const selectOutgoing =
  'select key, id, event_type, body, content_type, headers from message where key = ? and expunged_at is null'
// Without its row, a delivery that has a variant is not sent.
const selectVariant = `
  select message.key, id, event_type, coalesce(variant.body, message.body) as body, content_type, headers, signature
  from variant join message on message.key = variant.message
  where variant.message = ? and n = ? and expunged_at is null`

interface OutgoingRow {
  readonly key: number
  readonly id: string
  readonly event_type: string
  readonly body: Uint8Array
  readonly content_type: string
  readonly headers: string | null
  readonly signature?: string | null
}

function toOutgoing(row: OutgoingRow, variant: number | null): Outgoing {
  return {
    key: row.key,
    id: row.id,
    eventType: row.event_type,
    body: row.body,
    contentType: row.content_type,
    headers: fromJson(row.headers),
    variant,
    signature: row.signature ?? null,
  }
}

/** Reads due deliveries and settles them. */
export function delivering(connection: Connection): MaybeSynchronous<Delivering> {
  const pending = connection.prepare<PendingColumns>(selectPending)
  const timedRows = connection.prepare<PendingColumns>(selectTimed)
  const nextTimed = connection.prepare<{ due_at: EpochMs | null }>(selectNextTimed)
  const outgoing = connection.prepare<OutgoingRow>(selectOutgoing)
  const outgoingVariant = connection.prepare<OutgoingRow>(selectVariant)

  function readOne({ endpoint, class: rowClass, after, limit }: DueRead, now: EpochMs): DueRows {
    const isTimed = rowClass === timed
    const query = isTimed ? timedRows : pending
    const rows = query.all(now, endpoint, rowClass, after?.dueAt ?? -1, after?.message ?? -1, limit)
    const next = isTimed && rows.length < limit ? nextTimed.get(endpoint, now)?.due_at : undefined
    return {
      rows: rows.map((row) => toPendingRow(row, rowClass)),
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

    loadMessages(keys): Outgoing[] {
      const found: Outgoing[] = []
      for (const key of keys) {
        const row = outgoing.get(key)
        if (row !== undefined) found.push(toOutgoing(row, null))
      }
      return found
    },

    loadVariants(keys): Outgoing[] {
      const found: Outgoing[] = []
      for (const { message, variant } of keys) {
        const row = outgoingVariant.get(message, variant)
        if (row !== undefined) found.push(toOutgoing(row, variant))
      }
      return found
    },

    settle: settling(connection),
  }
}
