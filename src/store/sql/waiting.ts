import type { EpochMs } from '../../domain/clock.ts'
import { type Class, fresh, replay, timed } from '../../domain/delivery.ts'
import type { QueueCount, RowPlace, WaitingQueues } from '../lanes.ts'
import { listStart } from '../page.ts'
import type { Methods, Port } from './port.ts'
import { statement } from './statement.ts'

// A range of endpoint_app, and one of the primary key. The management application has the key 0 and is left out.
const selectOfApp = statement<{ endpoint: number; app: number }>(
  'endpoint-keys',
  `select key as endpoint, app from endpoint where app = :app and key > :after and deleted_at is null
    order by key limit :limit`,
)
const selectOfAll = statement<{ endpoint: number; app: number }>(
  'all-endpoint-keys',
  `select key as endpoint, app from endpoint where key > :after and app > 0 and deleted_at is null
    order by key limit :limit`,
)

// Each is a range of pending's primary key, read no further than the limit.
const front = (column: string) => `
  select ${column} from pending where pending.endpoint = asked.endpoint
   order by class, due_at, message limit cast(:limit as bigint)`
const countFronts = statement<{ endpoint: number; count: number; oldest: EpochMs | null }>(
  'count-fronts',
  ({ rowsOf }) => `
    select endpoint, (select count(*) from (${front('1 as one')}) as counted) as count,
           (select min(since) from (${front('since')}) as counted) as oldest
      from ${rowsOf(':queues', 'asked', { endpoint: 'bigint' })}`,
)

const place = 'class, due_at, message'
const behind = `from pending where endpoint = :endpoint and (${place}) > (:class, :due_at, :message)`
const selectEnd = statement<{ class: RowPlace['class']; due_at: EpochMs; message: number }>(
  'end-of-part',
  `select ${place} ${behind} order by ${place} limit 1 offset cast(:limit as bigint) - 1`,
)
const countPart = statement<{ class: Class; count: number; oldest: EpochMs }>(
  'count-part',
  `select class, count(*) as count, min(since) as oldest from (
     select class, since ${behind} and (${place}) <= (:to_class, :to_due_at, :to_message)
      order by ${place} limit :limit) as part
    group by class`,
)

const most = Number.MAX_SAFE_INTEGER

/** Counts the queues of endpoints. */
export function waitingQueues(port: Port): Methods<WaitingQueues> {
  return {
    *endpointKeys(app, after, limit) {
      const values = { after: after ?? listStart('ascending'), limit }
      return app === null
        ? yield* port.relaxed.all(selectOfAll, values)
        : yield* port.relaxed.all(selectOfApp, { ...values, app })
    },

    *countFronts(endpoints, limit) {
      if (endpoints.length === 0) return []
      const queues = endpoints.map((endpoint) => ({ endpoint }))
      const rows = yield* port.relaxed.all(countFronts, { queues, limit })
      return rows.flatMap(({ oldest, ...row }): QueueCount[] => (oldest === null ? [] : [{ ...row, oldest }]))
    },

    *countPart(endpoint, after, limit) {
      const from = {
        endpoint,
        class: after?.class ?? 0,
        due_at: after?.dueAt ?? -1,
        message: after?.message ?? 0,
        limit,
      }
      const last = yield* port.relaxed.first(selectEnd, from)
      // Rows may have left the queue since: the part ends at `last`, and the next part counts the rows behind it.
      const to = last ?? { class: 2, due_at: most, message: most }
      const values = { ...from, to_class: to.class, to_due_at: to.due_at, to_message: to.message }
      const counted = yield* port.relaxed.all(countPart, values)
      const of = (itsClass: Class) => counted.find((row) => row.class === itsClass)?.count ?? 0
      const oldest = counted.length === 0 ? null : Math.min(...counted.map((row) => row.oldest))
      const waiting = [of(fresh), of(timed), of(replay)] as const
      return { waiting, oldest, next: last ? { class: last.class, dueAt: last.due_at, message: last.message } : null }
    },
  }
}
