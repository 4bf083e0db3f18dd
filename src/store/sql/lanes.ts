import type { EpochMs } from '../../domain/clock.ts'
import { type Class, fresh, timed } from '../../domain/delivery.ts'
import { skipMark, sqlHeldMs, toHeldMs } from '../delivering.ts'
import { countLimit, type HeadAnswer, type LaneViews, type StoredAnswer } from '../lanes.ts'
import type { Methods, Port, Work } from './port.ts'
import { statement } from './statement.ts'

const saveSnapshots = statement(
  'save-snapshots',
  ({ among, rowsOf }) => `
    update lane set snapshot_at = :now, snapshot = (
             select answer.snapshot from ${rowsOf(':answers', 'answer', { endpoint: 'bigint', snapshot: 'text' })}
              where answer.endpoint = lane.endpoint limit 1)
     where ${among('endpoint', ':endpoints', 'bigint')} and owner = :worker`,
)
const selectSnapshots = statement<Omit<StoredAnswer, 'snapshotAt'> & { readonly snapshot_at: EpochMs }>(
  'lane-snapshots',
  ({ among }) => `
    select endpoint, owner, snapshot, snapshot_at from lane where ${among('endpoint', ':endpoints', 'bigint')}
     order by endpoint`,
)
// One seek of pending's primary key each.
const selectWaiting = statement<{ endpoint: number }>(
  'waiting-among',
  ({ rowsOf }) => `
    select endpoint from ${rowsOf(':lanes', 'asked', { endpoint: 'bigint' })}
     where (select 1 from pending where pending.endpoint = asked.endpoint limit 1) is not null`,
)

const heldMs = `${sqlHeldMs('held_until', ':now')} as held_ms`
const place = 'endpoint = :endpoint and class = :class and due_at = :due_at and message = :message'
const selectRow = statement<RowColumns>(
  'pending-row',
  `select ${heldMs}, order_key, since, expires_at from pending where ${place}`,
)
// Ranges of pending's primary key, read in its order. A timed row that is not due has not taken its place yet.
const firstOf = (itsClass: Class) => `
  select * from (
    select message, due_at, attempts, held_until from (
      select message, due_at, attempts, held_until, order_key from pending
       where endpoint = :endpoint and class = ${itsClass} and (due_at, message) < (:due_at, :message)
         ${itsClass === timed ? 'and due_at <= :now' : ''}
       order by due_at, message limit ${countLimit}) as line
     where cast(:order_key as bigint) is null or order_key = :order_key
     order by due_at, message limit 1) as ${itsClass === timed ? 'timed' : 'fresh'}_front`
const selectFront = statement<FrontColumns>(
  'front-of-lane',
  `select message, attempts, ${heldMs}, (select id from message where key = fronts.message limit 1) as id
     from (${firstOf(fresh)} union all ${firstOf(timed)}) as fronts
    order by due_at, message limit 1`,
)

const columns = 'class, due_at, message, held_until, :now as now'
const selectHead = statement<HeadRow>(
  'head-of-lane',
  `select * from (
     select * from (
       select ${columns} from pending where endpoint = :endpoint and class = ${fresh} order by due_at, message limit 1
     ) as fresh_head
     union all
     select * from (
       select ${columns} from pending where endpoint = :endpoint and class = ${timed} and due_at <= :now
        order by due_at, message limit 1
     ) as timed_head
   ) as heads order by due_at, message limit 1`,
)
// A named delivery is looked for among all of its endpoint's: an operator can wait.
const selectNamed = statement<HeadRow>(
  'named-in-lane',
  `select ${columns} from pending
    where endpoint = :endpoint and class in (${fresh}, ${timed}) and message = :message limit 1`,
)
const retryRow = statement(
  'retry-head',
  `update pending set held_until = null, prior_attempts = prior_attempts + attempts, attempts = 0, since = :at
    where ${place} and held_until > :at
   returning message`,
)
const skipRow = statement('skip-head', `update pending set held_until = ${skipMark} where ${place} returning message`)
// Below zero, not_before tells an owner that is releasing the lane that its rest is outdated.
const endRest = statement('end-rest-of-head', 'update lane set not_before = -1 where endpoint = :endpoint')

interface RowColumns {
  readonly held_ms: number | null
  readonly order_key: number | null
  readonly since: EpochMs
  readonly expires_at: EpochMs | null
}

interface FrontColumns {
  readonly message: number
  readonly attempts: number
  readonly held_ms: number | null
  readonly id: string | null
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

/** The state of lanes, as their owners answer and as their queues show, and commands to their heads. */
export function lanes(port: Port): Methods<LaneViews> {
  return {
    *askLanes(endpoints) {
      return endpoints.length === 0 || (yield* port.askOwners(endpoints))
    },

    *answerLanes(worker, answers) {
      if (answers.length === 0) return
      // The last answer for each lane, in case of several.
      const last = [...new Map(answers.map((answer) => [answer.endpoint, answer])).values()]
      const endpoints = last.map(({ endpoint }) => endpoint)
      yield* port.relaxed.transaction((sql) => sql.all(saveSnapshots, { worker, endpoints, answers: last }))
    },

    *readAnswers(endpoints) {
      if (endpoints.length === 0) return []
      const rows = yield* port.relaxed.all(selectSnapshots, { endpoints })
      return rows.map(({ snapshot_at: snapshotAt, ...row }) => ({ ...row, snapshotAt }))
    },

    *findRow(endpoint, { class: itsClass, dueAt, message }) {
      const row = yield* port.relaxed.first(selectRow, { endpoint, class: itsClass, due_at: dueAt, message })
      return (
        row && { heldMs: toHeldMs(row.held_ms), orderKey: row.order_key, since: row.since, expiresAt: row.expires_at }
      )
    },

    *findFirst(endpoint, orderKey, before) {
      const { dueAt, message } = before ?? behindAll
      const values = { endpoint, due_at: dueAt, message, order_key: orderKey }
      const row = yield* port.relaxed.first(selectFront, values)
      return row && { id: row.id, message: row.message, attempts: row.attempts, heldMs: toHeldMs(row.held_ms) }
    },

    *waitingAmong(endpoints) {
      if (endpoints.length === 0) return []
      const rows = yield* port.relaxed.all(selectWaiting, { lanes: endpoints.map((endpoint) => ({ endpoint })) })
      return rows.map(({ endpoint }) => endpoint).sort((a, b) => a - b)
    },

    *directHead(endpoint, message, order) {
      return yield* port.transaction(function* (sql): Work<HeadAnswer> {
        const row =
          message === null
            ? yield* sql.first(selectHead, { endpoint })
            : yield* sql.first(selectNamed, { endpoint, message })
        if (row === undefined) return { state: 'none' }
        // A row that is not held may be on its way: its attempt would then be counted in two ways.
        const isBusy = order === 'retry' && (row.held_until ?? 0) <= row.now
        if (isBusy) return { state: 'busy', message: row.message }
        const where = { endpoint, class: row.class, due_at: row.due_at, message: row.message }
        const changed = yield* order === 'skip'
          ? sql.first(skipRow, where)
          : sql.first(retryRow, { ...where, at: row.now })
        // It has ended in this very moment.
        if (changed === undefined) return { state: 'none' }
        yield* sql.all(endRest, { endpoint })
        yield* sql.settingsChanged([endpoint])
        yield* sql.wakeLane(endpoint)
        return { state: 'stored', message: row.message }
      })
    },
  }
}
