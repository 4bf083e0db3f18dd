import type { EpochMs } from '../../domain/clock.ts'
import type { Plan } from '../plan.ts'
import { type Expansion, nothingExpanded } from '../publishing.ts'
import { fromJson } from '../sql/statement.ts'
import type { Connection } from './connection.ts'
import type { EnqueuePlanned } from './planned.ts'
import type { Queueing } from './queueing.ts'

const selectWide = 'select app, endpoints, expires_at, plan from message where key = ? and expunged_at is null'
const selectCursor = 'select message, since, next from fan_out order by message limit 1'
const selectLive = 'select 1 from endpoint where key = ? and deleted_at is null'
const moveOn = 'update fan_out set next = ? where message = ?'
const deleteDone = 'delete from fan_out where message = ?'
const selectAny = 'select 1 from fan_out limit 1'

interface Cursor {
  readonly message: number
  readonly since: EpochMs
  readonly next: number
}

interface WideRow {
  readonly app: number
  readonly endpoints: string
  readonly expires_at: EpochMs | null
  readonly plan: string | null
}

/** The part of a wide message that its deliveries need. */
interface Wide {
  readonly message: number
  readonly app: number
  readonly endpoints: readonly number[]
  readonly expiresAt: EpochMs | null
  readonly plan: Plan | null
}

/**
 * Makes the function that expands wide messages. The rows and the cursor behind them are one transaction, so that a crash
 * between two chunks leaves neither a gap nor a row twice. The endpoints of the message were chosen when it was accepted;
 * those deleted since then are left out. An expunged message is expanded no further.
 */
export function fanOut(
  connection: Connection,
  { inTransaction, enqueue }: Queueing,
  enqueuePlanned: EnqueuePlanned,
): (limit: number) => Expansion {
  const listed = connection.prepare<WideRow>(selectWide)
  const cursor = connection.prepare<Cursor>(selectCursor)
  const live = connection.prepare<unknown>(selectLive)
  const move = connection.prepare(moveOn)
  const remove = connection.prepare(deleteDone)
  const any = connection.prepare<unknown>(selectAny)
  // Fifty thousand keys take milliseconds to parse, and are needed once per chunk.
  let parsed: Wide | undefined

  function wideOf(message: number): Wide {
    if (parsed?.message === message) return parsed
    const row = listed.get(message)
    parsed = {
      message,
      app: row?.app ?? 0,
      endpoints: JSON.parse(row?.endpoints ?? '[]'),
      expiresAt: row?.expires_at ?? null,
      plan: fromJson(row?.plan ?? null),
    }
    return parsed
  }

  return (limit) => {
    if (any.get() === undefined) return nothingExpanded
    const expanded = inTransaction((queued) => {
      const found = cursor.get()
      if (found === undefined) return nothingExpanded
      const { app, endpoints, expiresAt, plan } = wideOf(found.message)
      const end = found.next + limit
      const chunk = endpoints
        .slice(found.next, end)
        .filter((endpoint) => plan?.[endpoint]?.orderKey === undefined && live.get(endpoint) !== undefined)
      let merged: readonly number[] = []
      if (plan === null && expiresAt === null) enqueue(queued, chunk, found.message, found.since)
      else {
        const message = { key: found.message, app, since: found.since, expiresAt, plan, late: true }
        merged = enqueuePlanned(queued, chunk, message)
      }
      if (end < endpoints.length) move.run(end, found.message)
      else {
        remove.run(found.message)
        parsed = undefined
      }
      return { app, merged }
    })
    return { ...expanded, more: any.get() !== undefined }
  }
}
