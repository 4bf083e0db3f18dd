import { applications, noRegions, openRegions } from '../../features/applications/rows.ts'
import { subjectRules } from '../../features/erasure/rows.ts'
import type { RowPlace, WaitingQueues } from '../lanes.ts'
import { uncoalesced } from '../plan.ts'
import {
  type Intake,
  type Match,
  type Publication,
  type Published,
  type QueueCursor,
  staleTries,
  type WaitingCount,
} from '../publishing.ts'
import type { Methods, Port, Work } from './port.ts'
import { type SubscriptionRow, toSubscription } from './receiver-rows.ts'
import { listStart, type Shape, statement } from './statement.ts'

interface VersionRow {
  readonly version: number
  readonly dedupe_s: number | null
  readonly erase_delivered: unknown
  /** A number, or its text on Postgres. */
  readonly payload_s: unknown
  readonly subject_pointers: string | null
  readonly subject_secret: string | null
  /** Null for an application without endpoints. */
  readonly key: null
}

type Row = VersionRow | (Omit<VersionRow, 'key'> & SubscriptionRow)

// One statement, so that the version belongs to the endpoints. Leans on endpoint_app.
const selectSubscriptions = statement<Row>('subscriptions', {
  json: ['event_types', 'channels', 'flow'],
  flags: ['disabled'],
  sealed: ['secrets'],
} as unknown as Shape<Row>)`
  select a.version, a.dedupe_s, coalesce(a.settings, '{}') ->> 'eraseDelivered' as erase_delivered,
         coalesce(a.settings, '{}') ->> 'payloadRetentionSeconds' as payload_s,
         coalesce(a.settings, '{}') ->> 'subjectPointers' as subject_pointers,
         (select secret from subject_key where app = a.key) as subject_secret,
         e.key, e.id, e.uid, e.event_types, e.channels, e.disabled, e.flow,
         case when e.flow is not null then e.secrets end as secrets
    from application as a left join endpoint as e on e.app = a.key and e.deleted_at is null
   where a.key = :app and a.deleted_at is null
   order by e.key`
const selectRegions = statement<{ name: string; secret: string }>('regions-of')`
  select name, secret from region where app = :app`

// Both are ranges of pending's primary key, read in its order. Without a lane, the endpoint was deleted.
const place = 'endpoint, class, due_at, message'
const cursor = 'endpoint, class, due_at as "dueAt", message'
const behind = `from pending where (${place}) > (:endpoint, :class, :due_at, :message)`
const selectLast = statement<QueueCursor>('last-waiting')`
  select ${cursor} ${behind} order by ${place} limit 1 offset cast(:limit as bigint) - 1`
const countPage = statement<Omit<WaitingCount, 'app'> & { readonly app: number | null }>('count-waiting', {
  flags: ['stopped'],
})`
  select endpoint, class, count(*) as count, sum(case when due <= :now - :late_ms then 1 else 0 end) as late,
         :now - min(due) as "dueAgoMs", min(since) as "oldestSince",
         (select app from lane where lane.endpoint = page.endpoint limit 1) as app,
         (select stopped from lane where lane.endpoint = page.endpoint limit 1) as stopped
    from (
      select endpoint, class, since, case when held_until > due_at then held_until else due_at end as due
        ${behind} and (${place}) <= (:to_endpoint, :to_class, :to_due_at, :to_message)
       order by ${place} limit :limit
    ) as page
   group by endpoint, class order by endpoint, class`

/** The place in front of all rows; with another endpoint, in front of its queue. */
const start: QueueCursor = { endpoint: -1, class: 0, dueAt: 0, message: 0 }
const most = Number.MAX_SAFE_INTEGER
const end = { endpoint: most, class: 2, dueAt: most, message: most }

// A range of endpoint_app, and one of the primary key. The management application has the key 0 and is left out.
const selectOfApp = statement<{ endpoint: number; app: number }>('endpoint-keys')`
  select key as endpoint, app from endpoint where app = :app and key > :after and deleted_at is null
   order by key limit :limit`
const selectOfAll = statement<{ endpoint: number; app: number }>('all-endpoint-keys')`
  select key as endpoint, app from endpoint where key > :after and app > 0 and deleted_at is null
   order by key limit :limit`

const rowPlace = 'class, due_at as "dueAt", message'
const selectRungs = statement<RowPlace>('queue-rungs')`
  select class, "dueAt", message from (
    select ${rowPlace}, row_number() over (order by ${place}) as n from (
      select ${place} ${behind} and endpoint = :endpoint order by ${place} limit cast(:limit as bigint)
    ) as part
  ) as numbered where n % cast(:every as bigint) = 0 order by n`
// Postgres scans the whole index when the two bounds are all that it is given: the order and the limit have it read the range.
const range = `
  ${behind} and (${place}) < (:endpoint, :to_class, :to_due_at, :to_message)
   order by ${place} limit cast(:limit as bigint)`
const countRange = statement<{ count: number }>('count-range')`
  select count(*) as count from (
    select 1 as one ${range}
  ) as counted`
const countOfKey = statement<{ count: number }>('count-range-of-key')`
  select count(*) as count from (
    select order_key ${range}
  ) as counted where order_key = :order_key`

/** The reads that a publish and its limits need, and counts of the queues of endpoints. */
export function intakeReads(port: Port): Methods<Pick<Intake, 'subscriptions' | 'surveyWaiting'> & WaitingQueues> {
  return {
    *subscriptions(app) {
      const rows = yield* port.all(selectSubscriptions, { app })
      const [first] = rows
      if (first === undefined) return undefined
      const endpoints = rows.flatMap((row) => (row.key === null ? [] : [row]))
      const isRegional = endpoints.some(({ flow }) => flow?.region != null)
      const regions = isRegional ? openRegions(yield* port.all(selectRegions, { app }), app, port.context) : noRegions
      const list = endpoints.map((row) => toSubscription(row, app, port.context, regions))
      const { version, dedupe_s: dedupeSeconds, erase_delivered: erase } = first
      // JSON's true is 1 on SQLite, and text on Postgres.
      const eraseDelivered = erase === 1 || erase === 'true'
      const subjects = subjectRules(first.subject_pointers, first.subject_secret, app, port.context)
      const payload = first.payload_s === null ? {} : { payloadForMs: Number(first.payload_s) * 1000 }
      return { version, list, dedupeSeconds, eraseDelivered, ...payload, ...(subjects && { subjects }) }
    },

    *surveyWaiting(after, limit, lateMs = 0, oneQueue = false) {
      const { endpoint, class: itsClass, dueAt, message } = after ?? start
      const values = { endpoint, class: itsClass, due_at: dueAt, message, limit }
      const last = yield* port.relaxed.first(selectLast, values)
      // Rows may have left the queue since: the page ends at `last`, and the next page counts the rows behind it.
      const endsQueue = oneQueue && last?.endpoint !== endpoint
      const to = endsQueue ? { ...end, endpoint } : (last ?? end)
      const rows = yield* port.relaxed.all(countPage, {
        ...values,
        late_ms: lateMs,
        to_endpoint: to.endpoint,
        to_class: to.class,
        to_due_at: to.dueAt,
        to_message: to.message,
      })
      return {
        counts: rows.flatMap(({ app, ...row }) => (app === null ? [] : [{ ...row, app }])),
        next: endsQueue ? { ...start, endpoint: endpoint + 1 } : (last ?? null),
      }
    },

    *endpointKeys(app, after, limit) {
      const values = { after: after ?? listStart('ascending'), limit }
      return app === null
        ? yield* port.relaxed.all(selectOfAll, values)
        : yield* port.relaxed.all(selectOfApp, { ...values, app })
    },

    *queueRungs(endpoint, after, every, limit) {
      return yield* port.relaxed.all(selectRungs, { ...placeAt(endpoint, after), every, limit })
    },

    *countRange(endpoint, after, { class: itsClass, dueAt, message }, limit, orderKey = null) {
      const to = { to_class: itsClass, to_due_at: dueAt, to_message: message }
      const values = { ...placeAt(endpoint, after), ...to, limit }
      const row = yield* orderKey === null
        ? port.relaxed.first(countRange, values)
        : port.relaxed.first(countOfKey, { ...values, order_key: orderKey })
      return row?.count ?? 0
    },
  }
}

/**
 * Publishes within a caller's transaction: the port is over that transaction, and so is `publish`. The deliveries do not
 * coalesce, because the transaction may stay open and would hold its windows against every other publish.
 */
export function* publishEnlisted(
  port: Port,
  publish: (publication: Publication) => Work<Published>,
  ref: string,
  match: Match,
): Work<{ readonly publication: Publication; readonly published: Published } | undefined> {
  const application = yield* applications(port).findApplication(ref)
  if (application === undefined) return undefined
  for (let tries = 1; ; tries++) {
    const subscribed = yield* intakeReads(port).subscriptions(application.key)
    if (subscribed === undefined) return undefined
    const publication = uncoalesced(match(application, subscribed))
    const published = yield* publish(publication)
    if (published.state !== 'stale' || tries === staleTries) return { publication, published }
  }
}

/** A place in a queue; null stands for its begin. */
function placeAt(endpoint: number, place: RowPlace | null) {
  return { endpoint, class: place?.class ?? -1, due_at: place?.dueAt ?? 0, message: place?.message ?? 0 }
}
