import type { EpochMs } from '../../domain/clock.ts'
import { type Class, fresh, timed } from '../../domain/delivery.ts'
import { skipMark } from '../delivering.ts'
import {
  type FrontAnswer,
  type FrontRow,
  type LaneFacts,
  type LaneGroup,
  type LaneState,
  type LaneViews,
  type RowStatus,
  type StoredAnswer,
  searchLimit,
} from '../lanes.ts'
import type { Store } from '../store.ts'
import { among, greatest, has, probe, rowsOf } from './dialect.ts'
import { type PendingColumns, pendingColumns, sqlRetryInMs, toPendingRow, toRetryInMs } from './message-rows.ts'
import type { Methods, Port, Work } from './port.ts'
import { either, fragment, statement } from './statement.ts'

const answers = rowsOf(':answers', 'answer', { endpoint: 'bigint', snapshot: 'text' })
// On Postgres a join may be driven from all lanes.
const saveSnapshots = statement('save-snapshots')`
  update lane set snapshot_at = :now, ${either(
    fragment`snapshot = answer.snapshot from ${answers} where answer.endpoint = lane.endpoint`,
    `snapshot = (:answers.snapshot::text[])[array_position(:answers.endpoint::bigint[], endpoint)]
      where endpoint = any (:answers.endpoint::bigint[])`,
  )} and owner = :worker`
const selectSnapshots = statement<StoredAnswer>('lane-snapshots')`
  select endpoint, owner, snapshot, snapshot_at as "snapshotAt" from lane
   where ${among('endpoint', ':endpoints')} order by endpoint`
const alive = 'select count(*) from worker where ended_at is null and lease_until >= :now'
const healthAge = fragment`case when health is null then 0 else ${greatest(0, ':now - health_at')} end as "healthAgeMs"`
/** The fields of a `LaneState` but for its endpoint and owner. `workersServing` counts those that serve the lane's region. */
const stateColumns = fragment`
  :now as now, lane.due_at as "dueAt", lane.hold_until as "holdUntil", lane.not_before as "notBefore",
  lane.health, ${healthAge}, lane.region, (${alive}) as "workersAlive",
  (${alive} and (regions is null or ${has('regions', 'lane.region')})) as "workersServing",
  coalesce((select settings from application where key = lane.app limit 1), '{}') as "appSettings"`
const selectStates = statement<LaneState>('lane-states', { json: ['appSettings'] })`
  select endpoint, owner, ${stateColumns} from lane where ${among('endpoint', ':endpoints')}`

/** The first endpoint behind another that has rows: a seek of pending's primary key. */
const nextQueued = (after: string) => `
  (select pending.endpoint from pending where pending.endpoint > ${after} order by pending.endpoint limit 1)`
// One seek of pending's primary key for each endpoint with work, and one of lane's. Most lanes have no health of their own, and
// count together; the others are named.
const countLanes = statement<LaneGroup & Walked>('count-lanes', { flags: ['owned', 'stopped'] })`
  with recursive walk (endpoint, n) as (
    select ${nextQueued('cast(:after as bigint)')}, 1
    union all
    select ${nextQueued('walk.endpoint')}, n + 1 from walk where endpoint is not null and n < cast(:limit as bigint)
  ), page as (
    select lane.endpoint, owner is not null as owned, stopped, region, health,
           case when health is not null then lane.endpoint end as named,
           case when health is null then 0 else health_at end as health_at,
           case when due_at is null then 'none' when due_at <= :now then 'now' else 'later' end as due
      from walk ${probe('lane', 'lane.endpoint = walk.endpoint')}
  ), counted as (
    select owned, stopped, due, region, health, ${healthAge}, named as endpoint, count(*) as count
      from page group by owned, stopped, due, region, health, health_at, named
  )
  select counted.*, walked.*
    from (select max(endpoint) as last, count(endpoint) as looked from walk) as walked left join counted on true`

/** How far a walk over endpoints went. */
interface Walked {
  readonly last: number | null
  readonly looked: number
}

type LaneRow = Omit<LaneFacts, 'owner'> & {
  readonly owner: number | null
  readonly description: string | null
  readonly leaseUntil: EpochMs | null
}

const selectLane = statement<LaneRow>('lane', { flags: ['stopped'], json: ['appSettings'] })`
  select lane.owner, lane.stopped, lane.bucket_full_at as "bucketFullAt", worker.description,
         worker.lease_until as "leaseUntil",
         (select due_at from pending where endpoint = :endpoint and class = ${timed} order by due_at limit 1)
           as "nextTimedAt",
         coalesce((select attempts from pending where endpoint = :endpoint and class = ${timed}
                    order by due_at, message limit 1), 0) as "nextTimedAttempts",
         ${stateColumns}
    from lane join endpoint on endpoint.key = lane.endpoint and endpoint.deleted_at is null
    left join worker on worker.id = lane.owner
   where lane.endpoint = :endpoint`
const retryInMs = `${sqlRetryInMs('held_until', ':now')} as "retryInMs"`
/** A row whose `retryInMs` is as stored: see `toRetryInMs`. */
type Stored<Row> = Omit<Row, 'retryInMs'> & { readonly retryInMs: number | null }
const place = 'endpoint = :endpoint and class = :class and due_at = :due_at and message = :message'
const selectRow = statement<Stored<RowStatus>>('pending-row')`
  select ${retryInMs}, order_key as "orderKey", since, expires_at as "expiresAt" from pending where ${place}`
// Ranges of pending's primary key, read in its order. A timed row that is not due is not at the front.
const firstOf = (itsClass: Class) => `
  select * from (
    select message, due_at, attempts, held_until from (
      select message, due_at, attempts, held_until, order_key from pending
       where endpoint = :endpoint and class = ${itsClass} and (due_at, message) < (:due_at, :message)
         ${itsClass === timed ? 'and due_at <= :now' : ''}
       order by due_at, message limit ${searchLimit}) as line
     where cast(:order_key as bigint) is null or order_key = :order_key
     order by due_at, message limit 1) as ${itsClass === timed ? 'timed' : 'fresh'}_front`
const selectFront = statement<Stored<FrontRow>>('front-of-lane')`
  select message, attempts, ${retryInMs}, (select id from message where key = fronts.message limit 1) as id
    from (${firstOf(fresh)} union all ${firstOf(timed)}) as fronts
   order by due_at, message limit 1`

const columns = 'class, due_at, message, held_until, :now as now'
const selectHead = statement<HeadRow>('head-of-lane')`
  select * from (
    select * from (
      select ${columns} from pending where endpoint = :endpoint and class = ${fresh} order by due_at, message limit 1
    ) as fresh_head
    union all
    select * from (
      select ${columns} from pending where endpoint = :endpoint and class = ${timed} and due_at <= :now
       order by due_at, message limit 1
    ) as timed_head
  ) as fronts order by due_at, message limit 1`
// A named delivery is sought among all of its endpoint's: an operator can wait.
const selectNamed = statement<HeadRow>('named-in-lane')`
  select ${columns} from pending
   where endpoint = :endpoint and class in (${fresh}, ${timed}) and message = :message limit 1`
const retryRow = statement('retry-head')`
  update pending set held_until = null, prior_attempts = prior_attempts + attempts, attempts = 0, since = :at
   where ${place} and held_until > :at
  returning message`
const skipRow = statement('skip-head')`update pending set held_until = ${skipMark} where ${place} returning message`
// Leans on pending_expires. Rows of owned lanes are read and left out, so that each page is bounded.
const selectExpired = statement<ExpiredRow>('find-expired')`
  select endpoint, class, expires_at as "expiresAt", ${pendingColumns('pending', ':now')},
         (select app from lane where lane.endpoint = pending.endpoint and owner is null limit 1) as app
    from pending where expires_at >= :from and expires_at <= :now order by expires_at limit :limit`
// Below zero, not_before tells an owner that is releasing the lane that its rest is outdated.
const endRest = statement('end-rest-of-head')`update lane set not_before = -1 where endpoint = :endpoint`

interface ExpiredRow extends PendingColumns {
  readonly endpoint: number
  readonly class: Class
  readonly expiresAt: EpochMs
  /** Null when the lane has an owner. */
  readonly app: number | null
}

interface HeadRow {
  readonly now: EpochMs
  readonly class: Class
  readonly due_at: EpochMs
  readonly message: number
  readonly held_until: EpochMs | null
}

/** Behind every row. */
const behindAll = { dueAt: Number.MAX_SAFE_INTEGER, message: 0 }

/** The state of lanes, as their owners answer and as their queues show, and commands to their fronts. */
export function lanes(port: Port): Methods<LaneViews & Pick<Store, 'findLane' | 'readExpired'>> {
  return {
    *findLane(endpoint) {
      const row = yield* port.first(selectLane, { endpoint })
      if (row === undefined) return undefined
      const { owner, description, leaseUntil, ...facts } = row
      return {
        ...facts,
        owner: owner === null ? null : { worker: owner, description: description ?? '', leaseUntil: leaseUntil ?? 0 },
      }
    },

    *surveyLanes(after, limit) {
      const rows = yield* port.relaxed.all(countLanes, { after: after ?? -1, limit })
      const { last = null, looked = 0 } = rows[0] ?? {}
      return {
        groups: rows.flatMap(({ last: _last, looked: _looked, ...group }) => (group.count === null ? [] : [group])),
        next: looked < limit ? null : last,
      }
    },

    *laneStates(endpoints) {
      return endpoints.length === 0 ? [] : yield* port.relaxed.all(selectStates, { endpoints })
    },

    *askLanes(endpoints) {
      return endpoints.length === 0 || (yield* port.askOwners(endpoints))
    },

    *answerLanes(worker, answers) {
      if (answers.length === 0) return
      // The last answer for each lane, in case of several.
      const last = [...new Map(answers.map((answer) => [answer.endpoint, answer])).values()]
      yield* port.relaxed.transaction((sql) => sql.run(saveSnapshots, { worker, answers: last }))
    },

    *readAnswers(endpoints) {
      return endpoints.length === 0 ? [] : yield* port.relaxed.all(selectSnapshots, { endpoints })
    },

    *findRow(endpoint, { class: itsClass, dueAt, message }) {
      const row = yield* port.relaxed.first(selectRow, { endpoint, class: itsClass, due_at: dueAt, message })
      return row && { ...row, retryInMs: toRetryInMs(row.retryInMs) }
    },

    *findFront(endpoint, orderKey, before) {
      const { dueAt, message } = before ?? behindAll
      const values = { endpoint, due_at: dueAt, message, order_key: orderKey }
      const row = yield* port.relaxed.first(selectFront, values)
      return row && { ...row, retryInMs: toRetryInMs(row.retryInMs) }
    },

    *readExpired(from, limit) {
      const rows = yield* port.relaxed.all(selectExpired, { from: from ?? 0, limit })
      const deliveries = rows.flatMap(({ endpoint, app, ...row }) =>
        app === null ? [] : [{ endpoint, app, row: toPendingRow(row, row.class) }],
      )
      return { deliveries, next: nextExpired(rows, from, limit) }
    },

    *commandFront(endpoint, message, command) {
      return yield* port.transaction(function* (sql): Work<FrontAnswer> {
        const row =
          message === null
            ? yield* sql.first(selectHead, { endpoint })
            : yield* sql.first(selectNamed, { endpoint, message })
        if (row === undefined) return { state: 'none' }
        // A row that waits for no retry may be in flight: its attempt would then be counted in two ways.
        const isBusy = command === 'retry' && (row.held_until ?? 0) <= row.now
        if (isBusy) return { state: 'busy', message: row.message }
        const where = { endpoint, class: row.class, due_at: row.due_at, message: row.message }
        const changed = yield* command === 'skip'
          ? sql.first(skipRow, where)
          : sql.first(retryRow, { ...where, at: row.now })
        // The delivery has ended meanwhile.
        if (changed === undefined) return { state: 'none' }
        yield* sql.run(endRest, { endpoint })
        yield* sql.settingsChanged([endpoint])
        yield* sql.wakeLane(endpoint)
        return { state: 'stored', message: row.message }
      })
    },
  }
}

/**
 * Where the next page of expired rows begins: at the last instant of a full page, or behind it when all of the page is of
 * that instant. Null behind the last page.
 */
function nextExpired(
  rows: readonly { readonly expiresAt: EpochMs }[],
  from: EpochMs | null,
  limit: number,
): EpochMs | null {
  const last = rows.at(-1)
  if (rows.length < limit || last === undefined) return null
  return last.expiresAt === from ? last.expiresAt + 1 : last.expiresAt
}
