import type { EpochMs } from '../../domain/clock.ts'
import { type Class, fresh, replay, timed } from '../../domain/delivery.ts'
import { applications, noRegions, openRegions } from '../../features/applications/rows.ts'
import { subjectRules } from '../../features/erasure/rows.ts'
import type { QueueCount, RowPlace, WaitingQueues } from '../lanes.ts'
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
import { rowsOf } from './dialect.ts'
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
         :now - min(due) as "dueAgoMs",
         (select app from lane where lane.endpoint = page.endpoint limit 1) as app,
         (select stopped from lane where lane.endpoint = page.endpoint limit 1) as stopped
    from (
      select endpoint, class, case when held_until > due_at then held_until else due_at end as due
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

/** The first endpoint behind another that has rows: a seek of pending's primary key. */
const nextQueued = (after: string) => `
  (select pending.endpoint from pending where pending.endpoint > ${after} order by pending.endpoint limit 1)`
// The walk ends with a null. Endpoints of the management application and deleted ones have no `app`.
const walkQueued = statement<{ endpoint: number; app: number | null }>('queued-endpoints')`
  with recursive walk (endpoint, n) as (
    select ${nextQueued('cast(:after as bigint)')}, 1
    union all
    select ${nextQueued('walk.endpoint')}, n + 1 from walk where endpoint is not null and n < cast(:limit as bigint)
  )
  select endpoint, (
           select app from endpoint where key = walk.endpoint and app > 0 and deleted_at is null limit 1) as app
    from walk where endpoint is not null`

// Each is a range of pending's primary key, read no further than the limit.
const front = (column: string) => `
  select ${column} from pending where pending.endpoint = asked.endpoint
   order by class, due_at, message limit cast(:limit as bigint)`
const countFronts = statement<{ endpoint: number; count: number; oldest: EpochMs | null }>('count-fronts')`
  select endpoint, (select count(*) from (${front('1 as one')}) as counted) as count,
         (select min(since) from (${front('since')}) as counted) as oldest
    from ${rowsOf(':queues', 'asked', { endpoint: 'bigint' })}`

const rowPlace = 'class, due_at, message'
const behindRow = `from pending where endpoint = :endpoint and (${rowPlace}) > (:class, :due_at, :message)`
const selectEnd = statement<RowPlace>('end-of-part')`
  select class, due_at as "dueAt", message ${behindRow} order by ${rowPlace} limit 1 offset cast(:limit as bigint) - 1`
const countPart = statement<{ class: Class; count: number; oldest: EpochMs }>('count-part')`
  select class, count(*) as count, min(since) as oldest from (
    select class, since ${behindRow} and (${rowPlace}) <= (:to_class, :to_due_at, :to_message)
     order by ${rowPlace} limit :limit) as part
   group by class`

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

    *queuedEndpoints(after, limit) {
      const rows = yield* port.relaxed.all(walkQueued, { after: after ?? -1, limit })
      return {
        endpoints: rows.flatMap(({ endpoint, app }) => (app === null ? [] : [{ endpoint, app }])),
        next: rows.length < limit ? null : (rows.at(-1)?.endpoint ?? null),
      }
    },

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
      const to = last ?? end
      const values = { ...from, to_class: to.class, to_due_at: to.dueAt, to_message: to.message }
      const counted = yield* port.relaxed.all(countPart, values)
      const of = (itsClass: Class) => counted.find((row) => row.class === itsClass)?.count ?? 0
      const oldest = counted.length === 0 ? null : Math.min(...counted.map((row) => row.oldest))
      const waiting = [of(fresh), of(timed), of(replay)] as const
      return { waiting, oldest, next: last ?? null }
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
