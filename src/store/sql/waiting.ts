import type { EpochMs } from '../../domain/clock.ts'
import type { Class } from '../../domain/delivery.ts'
import type { Intake, QueueCursor } from '../publishing.ts'
import type { Methods, Port } from './port.ts'
import { statement } from './statement.ts'

// Both are ranges of pending's primary key, read in its order.
const place = 'endpoint, class, due_at, message'
const behind = `from pending where (${place}) > (:endpoint, :class, :due_at, :message)`
const selectLast = statement<{ endpoint: number; class: Class; due_at: EpochMs; message: number }>(
  'last-waiting',
  `select ${place} ${behind} order by ${place} limit 1 offset cast(:limit as bigint) - 1`,
)
const countPage = statement<{ endpoint: number; app: number | null; count: number }>(
  'count-waiting',
  `select endpoint, count(*) as count,
          (select app from lane where lane.endpoint = page.endpoint limit 1) as app
     from (
       select endpoint ${behind} and (${place}) <= (:to_endpoint, :to_class, :to_due_at, :to_message)
        order by ${place} limit :limit
     ) as page
    group by endpoint`,
)

const start: QueueCursor = { endpoint: -1, class: 0, dueAt: 0, message: 0 }
const most = Number.MAX_SAFE_INTEGER
const end = { endpoint: most, class: 2, due_at: most, message: most }

/** Counts deliveries that wait, a page at a time. */
export function waiting(port: Port): Methods<Pick<Intake, 'surveyWaiting'>> {
  return {
    *surveyWaiting(after, limit) {
      const { endpoint, class: itsClass, dueAt, message } = after ?? start
      const values = { endpoint, class: itsClass, due_at: dueAt, message, limit }
      const last = yield* port.relaxed.first(selectLast, values)
      // Not beyond the last row, since others may have gone meanwhile: those behind it are counted by the next page.
      const to = last ?? end
      const rows = yield* port.relaxed.all(countPage, {
        ...values,
        to_endpoint: to.endpoint,
        to_class: to.class,
        to_due_at: to.due_at,
        to_message: to.message,
      })
      return {
        counts: rows.flatMap((row) => (row.app === null ? [] : [{ ...row, app: row.app }])),
        next: last ? { endpoint: last.endpoint, class: last.class, dueAt: last.due_at, message: last.message } : null,
      }
    },
  }
}
