import type { Class } from '../../domain/delivery.ts'
import type { QueueCursor, WaitingCounts } from '../intake.ts'
import type { Connection } from './connection.ts'

// Both are ranges of pending's primary key, read in its order.
const behind = `
  from pending where (endpoint, class, due_at, message) > (?1, ?2, ?3, ?4) order by endpoint, class, due_at, message`
const countPage = `
  select page.endpoint, max(lane.app) as app, count(*) as count
  from (select endpoint ${behind} limit ?5) as page join lane on lane.endpoint = page.endpoint
  group by page.endpoint`
const selectLast = `select endpoint, class, due_at, message ${behind} limit 1 offset ?5 - 1`

/** Makes what counts waiting deliveries, a page at a time. */
export function waitingCounter(connection: Connection): (after: QueueCursor | null, limit: number) => WaitingCounts {
  const count = connection.prepare<WaitingCounts['counts'][number]>(countPage)
  const last = connection.prepare<{ endpoint: number; class: Class; due_at: number; message: number }>(selectLast)

  return (after, limit) => {
    const { endpoint, class: rowClass, dueAt, message } = after ?? { endpoint: -1, class: 0, dueAt: 0, message: 0 }
    const end = last.get(endpoint, rowClass, dueAt, message, limit)
    return {
      counts: count.all(endpoint, rowClass, dueAt, message, limit).map((row) => ({ ...row })),
      next: end ? { endpoint: end.endpoint, class: end.class, dueAt: end.due_at, message: end.message } : null,
    }
  }
}
