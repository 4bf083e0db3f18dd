import type { EpochMs } from '../../domain/clock.ts'
import type { Connection } from './connection.ts'
import type { Enqueue, Queued } from './intake.ts'

const selectEndpoints = 'select endpoints from message where key = ? and expunged_at is null'
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

/**
 * Makes what queues the deliveries of wide messages. The rows and the cursor behind them are one transaction, so that a
 * crash between two chunks leaves neither a gap nor a row twice. Which endpoints get the message was decided when it was
 * accepted; those deleted since then are left out. An expunged message is
 * expanded no further.
 */
export function fanOut(
  connection: Connection,
  queueing: <T>(work: (queued: Queued) => T) => T,
  enqueue: Enqueue,
): (limit: number) => boolean {
  const listed = connection.prepare<{ endpoints: string }>(selectEndpoints)
  const cursor = connection.prepare<Cursor>(selectCursor)
  const live = connection.prepare<unknown>(selectLive)
  const move = connection.prepare(moveOn)
  const remove = connection.prepare(deleteDone)
  const any = connection.prepare<unknown>(selectAny)
  // Fifty thousand keys take milliseconds to parse, and are needed once per chunk.
  let parsed: { readonly message: number; readonly endpoints: readonly number[] } | undefined

  function endpointsOf(message: number): readonly number[] {
    if (parsed?.message !== message) parsed = { message, endpoints: JSON.parse(listed.get(message)?.endpoints ?? '[]') }
    return parsed.endpoints
  }

  return (limit) => {
    if (any.get() === undefined) return false
    queueing((queued) => {
      const found = cursor.get()
      if (found === undefined) return
      const endpoints = endpointsOf(found.message)
      const end = found.next + limit
      const chunk = endpoints.slice(found.next, end).filter((endpoint) => live.get(endpoint) !== undefined)
      enqueue(queued, chunk, found.message, found.since)
      if (end < endpoints.length) move.run(end, found.message)
      else {
        remove.run(found.message)
        parsed = undefined
      }
    })
    return any.get() !== undefined
  }
}
