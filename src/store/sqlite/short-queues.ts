import { type Class, fresh, replay, timed } from '../../domain/delivery.ts'
import type { DueRows, PendingRow, QueueFront } from '../delivering.ts'
import { type PendingValues, pendingColumns, pendingRow } from '../sql/message-rows.ts'
import type { Connection } from './connection.ts'

/** A short queue is read in one statement. Most lanes that were just claimed have a row or two. */
export const shortRows = 16
// A range of pending's primary key, read in its order: all classes, due or not.
const selectWhole = `
  select class, ${pendingColumns('pending', '?1')} from pending where endpoint = ?2
  order by class, due_at, message limit ${shortRows + 1}`

/** Makes a reader of whole queues by class, as of an instant; it answers undefined for one that is too long for one statement. */
export function shortQueues(connection: Connection): (endpoint: number, now: number) => QueueFront | undefined {
  const whole = connection.prepareLists<readonly [rowClass: Class, ...PendingValues]>(selectWhole)
  return (endpoint, now) => {
    const found = whole.all(now, endpoint)
    if (found.length > shortRows) return undefined
    const rows: [PendingRow[], PendingRow[], PendingRow[]] = [[], [], []]
    let next: number | undefined
    for (const [rowClass, message, dueAt, attempts, prior, orderKey, variant, age, late, retryIn, expiresIn] of found) {
      // Named one by one: a rest of each row would be one more list.
      const row = pendingRow(
        rowClass,
        message,
        dueAt,
        attempts,
        prior,
        orderKey,
        variant,
        age,
        late,
        retryIn,
        expiresIn,
      )
      if (rowClass !== timed || row.dueAt <= now) rows[rowClass].push(row)
      else next ??= row.dueAt - now
    }
    const page = (c: Class, nextInMs?: number): DueRows => ({ rows: rows[c], nextInMs })
    return { pages: [page(fresh), page(timed, next), page(replay)], limit: shortRows + 1 }
  }
}
