import type { EpochMs } from '../../domain/clock.ts'
import { type Class, classes, fresh, replay, timed } from '../../domain/delivery.ts'
import { keyTime } from '../../domain/ids.ts'
import { bringForwardMs, nearMs, type Replaying } from '../dead-letters.ts'
import { countLimit, type LaneFacts, type QueuedRow } from '../lanes.ts'
import { type DeliveryKey, expungedResponse } from '../messages.ts'
import { type Plan, plainly } from '../plan.ts'
import { selectAttempted } from '../sql/messages.ts'
import type { Connection, Synchronous } from './connection.ts'
import { laneWakes } from './lane-wakes.ts'
import { fromJson } from './rows.ts'

const selectSendable = 'select endpoints, plan from message where key = ? and expunged_at is null'
const selectLatest = 'select n, next_at from attempt where message = ? and endpoint = ? order by n desc limit 1'
const selectQueued = 'select 1 from pending where endpoint = ? and class = ? and due_at = ? and message = ?'
const deleteQueued = 'delete from pending where endpoint = ? and class = ? and due_at = ? and message = ?'
// A replayed row is due when its message was made. So it is found without an index by message, replays run in the order
// their messages came, and replaying twice finds the row taken. It does not expire: an operator wants it.
const insertReplay = `
  insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, variant)
  values (?, ${replay}, ?, ?, ?, 0, ?, ?, ?)`
const selectDead = 'select 1 from dead where endpoint = ? and message = ?'
const deleteDead = 'delete from dead where endpoint = ? and message = ?'

// A range of pending's primary key: where the row must be by what is known of it, else the whole class of the endpoint.
const searchQueued = `
  select class, due_at, attempts from pending
  where endpoint = ? and class = ? and due_at >= ? and due_at <= ? and message = ? limit 1`
const countAhead = `
  select count(*) as count from (
    select 1 from pending where endpoint = ? and class = ? and (due_at, message) < (?, ?) limit ${countLimit})`

const selectPresent = 'select 1 from endpoint where key = ? and deleted_at is null'
const selectMessage = 'select endpoints from message where key = ?'
const deleteFanOut = 'delete from fan_out where message = ?'
const deleteVariants = 'delete from variant where message = ?'
const eraseMessage = `
  update message set body = x'', headers = null, ordering_key = null, channels = null, tags = null, plan = null,
    expunged_at = coalesce(expunged_at, ?2)
  where key = ?1`
// A receiver may have echoed what it got, in its answer or in a location that the error quotes.
const eraseAttempts = `
  update attempt set error = null, response = case when response is null then null else ?2 end where message = ?1`
const eraseDead = `
  update dead set error = null, response = case when response is null then null else ?3 end
  where endpoint = ?1 and message = ?2`

const selectLane = `
  select lane.*, worker.description, worker.lease_until from lane
    join endpoint on endpoint.key = lane.endpoint and endpoint.deleted_at is null
    left join worker on worker.id = lane.owner
  where lane.endpoint = ?`
const countClass = `
  select count(*) as count, min(since) as oldest
  from (select since from pending where endpoint = ? and class = ? limit ${countLimit})`
const selectNextTimed = `select min(due_at) as due_at from pending where endpoint = ? and class = ${timed}`
const countWorkers = 'select count(*) as count from worker where ended_at is null and lease_until >= ?'

interface LaneRow {
  readonly due_at: EpochMs | null
  readonly owner: number | null
  readonly stopped: number
  readonly bucket_full_at: EpochMs
  readonly hold_until: EpochMs
  readonly not_before: EpochMs
  readonly description: string | null
  readonly lease_until: EpochMs | null
  readonly health: string | null
  readonly health_at: EpochMs
}

interface QueuedColumns {
  readonly class: Class
  readonly due_at: EpochMs
  readonly attempts: number
}

interface Latest {
  readonly n: number
  readonly next_at: EpochMs | null
}

/** Sending again, never again, and finding out where a delivery stands. */
export function replaying(connection: Connection): Synchronous<Replaying> {
  const requeue = replayer(connection)
  const queued = connection.prepare<unknown>(selectQueued)
  const search = queueSearch(connection)
  const findRow = rowFinder(connection)
  const ahead = connection.prepare<{ count: number }>(countAhead)
  const message = connection.prepare<{ endpoints: string }>(selectMessage)
  const erase = connection.prepare(eraseMessage)
  const eraseAnswers = connection.prepare(eraseAttempts)
  const eraseDeadLetter = connection.prepare(eraseDead)
  const eraseVariants = connection.prepare(deleteVariants)
  const remove = connection.prepare(deleteQueued)
  const lane = connection.prepare<LaneRow>(selectLane)
  const waiting = connection.prepare<{ count: number; oldest: EpochMs | null }>(countClass)
  const nextTimed = connection.prepare<{ due_at: EpochMs | null }>(selectNextTimed)
  const workers = connection.prepare<{ count: number }>(countWorkers)
  const attempted = connection.prepare<{ endpoint: number }>(selectAttempted.in('sqlite').text)
  const stopFanOut = connection.prepare(deleteFanOut)

  return {
    replay(deliveries): DeliveryKey[] {
      let woken: Woken = nothingWoken
      const done = connection.transaction(() => {
        woken = requeue(deliveries, connection.now())
        return woken.queued
      })
      tell(connection, woken)
      return [...done]
    },

    expungeMessage(key): void {
      // The freed pages would otherwise keep the bytes until they are written over.
      connection.db.exec('pragma secure_delete = on')
      try {
        connection.transaction(() => {
          const found = message.get(key)
          if (found === undefined) return
          const endpoints = new Set<number>(JSON.parse(found.endpoints))
          for (const { endpoint } of attempted.all({ message: key })) endpoints.add(endpoint)
          for (const endpoint of endpoints) {
            const row = search({ endpoint, message: key }, () => true)
            if (row !== undefined) remove.run(endpoint, row.class, row.due_at, key)
            eraseDeadLetter.run(endpoint, key, expungedResponse)
          }
          eraseAnswers.run(key, expungedResponse)
          stopFanOut.run(key)
          erase.run(key, connection.now())
          eraseVariants.run(key)
        })
      } finally {
        connection.db.exec('pragma secure_delete = fast')
      }
      connection.wipeLog()
      connection.watcher?.expunged?.([key])
    },

    findQueued(delivery): QueuedRow | undefined {
      const { endpoint, message: key } = delivery
      const row = findRow(delivery)
      if (row === undefined) return undefined
      const count = ahead.get(endpoint, row.class, row.due_at, key)?.count ?? 0
      return { class: row.class, dueAt: row.due_at, attempts: row.attempts, ahead: count }
    },

    findReplaying(deliveries): DeliveryKey[] {
      return deliveries.filter(({ endpoint, message }) => queued.get(endpoint, replay, keyTime(message), message))
    },

    findLane(endpoint): LaneFacts | undefined {
      const row = lane.get(endpoint)
      if (row === undefined) return undefined
      const now = connection.now()
      const counted = classes.map((c) => waiting.get(endpoint, c))
      const [first, second, third] = counted.map((found) => found?.count ?? 0)
      const since = counted.flatMap((found) => found?.oldest ?? [])
      return {
        now,
        stopped: row.stopped === 1,
        owner:
          row.owner === null
            ? null
            : { worker: row.owner, description: row.description ?? '', leaseUntil: row.lease_until ?? 0 },
        dueAt: row.due_at,
        holdUntil: row.hold_until,
        bucketFullAt: row.bucket_full_at,
        notBefore: row.not_before,
        waiting: [first as number, second as number, third as number],
        nextTimedAt: nextTimed.get(endpoint)?.due_at ?? null,
        oldestSince: since.length === 0 ? null : Math.min(...since),
        health: row.health,
        healthAgeMs: row.health === null ? 0 : Math.max(0, now - row.health_at),
        workersAlive: workers.get(now)?.count ?? 0,
      }
    },
  }
}

/** The deliveries that a replay queued, and whether a lane became claimable. */
export interface Woken {
  readonly queued: readonly DeliveryKey[]
  readonly lanes: boolean
}

const nothingWoken: Woken = { queued: [], lanes: false }

/** Tells the watcher of what a replay queued, once that is committed. */
export function tell(connection: Connection, { queued, lanes }: Woken): void {
  if (queued.length > 0) connection.watcher?.rows([...new Set(queued.map(({ endpoint }) => endpoint))], replay)
  if (lanes) connection.watcher?.lanes()
}

/** Makes what queues deliveries again, inside the caller's transaction. */
export function replayer(connection: Connection): (deliveries: readonly DeliveryKey[], now: EpochMs) => Woken {
  const sendable = connection.prepare<{ endpoints: string; plan: string | null }>(selectSendable)
  const latest = connection.prepare<Latest>(selectLatest)
  const remove = connection.prepare(deleteQueued)
  const insert = connection.prepare(insertReplay)
  const revive = connection.prepare(deleteDead)
  const present = connection.prepare<unknown>(selectPresent)
  const search = queueSearch(connection)
  const wakes = laneWakes(connection)

  /** Whether the delivery may be queued as a replay now; takes it out of the queue of those that wait for their time. */
  function isFree(delivery: DeliveryKey, endpoints: string, now: EpochMs): boolean {
    const row = search(delivery, () => JSON.parse(endpoints).includes(delivery.endpoint))
    if (row === undefined) return true
    if (row.class !== timed || row.due_at <= now + bringForwardMs) return false
    remove.run(delivery.endpoint, timed, row.due_at, delivery.message)
    return true
  }

  // A plan may be megabytes, and many deliveries of one message come together.
  let parsed: { readonly message: number; readonly plan: Plan | null } | undefined
  function planOf(message: number, text: string | null): Plan | null {
    if (text === null) return null
    if (parsed?.message !== message) parsed = { message, plan: fromJson<Plan>(text) }
    return parsed.plan
  }

  return (deliveries, now) => {
    // It may have grown since.
    parsed = undefined
    const queued: DeliveryKey[] = []
    // A dead letter of a deleted endpoint stays: it can still be exported, and imported for another endpoint.
    const endpoints = new Set(deliveries.map(({ endpoint }) => endpoint))
    const gone = new Set([...endpoints].filter((key) => present.get(key) === undefined))
    for (const delivery of deliveries) {
      const { endpoint, message } = delivery
      if (gone.has(endpoint)) continue
      const found = sendable.get(message)
      if (found === undefined || !isFree(delivery, found.endpoints, now)) continue
      const { orderKey = null, variant = null } = planOf(message, found.plan)?.[endpoint] ?? plainly
      insert.run(endpoint, keyTime(message), message, now, latest.get(message, endpoint)?.n ?? 0, orderKey, variant)
      revive.run(endpoint, message)
      queued.push(delivery)
    }
    let lanes = false
    for (const endpoint of new Set(queued.map((delivery) => delivery.endpoint))) {
      if (wakes.wake(endpoint, now)) lanes = true
    }
    return { queued, lanes }
  }
}

/** Makes what finds the row of a delivery, wherever it waits. */
export function rowFinder(connection: Connection): (delivery: DeliveryKey) => QueuedColumns | undefined {
  const search = queueSearch(connection)
  const message = connection.prepare<{ endpoints: string }>(selectMessage)
  return (delivery) =>
    search(delivery, () => JSON.parse(message.get(delivery.message)?.endpoints ?? '[]').includes(delivery.endpoint))
}

type QueueSearch = (delivery: DeliveryKey, isAccepted: () => boolean) => QueuedColumns | undefined

/**
 * Makes what finds a delivery's row. Rows are not indexed by message, since every delivery would pay for it; but a
 * replay's instant is known, a retry's is in the last attempt, and a fresh row's is that of its message but for a
 * moment. Only a row that must exist and is none of these is looked for among all of its class: a dead letter's does
 * not. `isAccepted` says whether the message was accepted for the endpoint, and is asked only before the first attempt.
 */
export function queueSearch(connection: Connection): QueueSearch {
  const find = connection.prepare<QueuedColumns>(searchQueued)
  const latest = connection.prepare<Latest>(selectLatest)
  const dead = connection.prepare<unknown>(selectDead)

  return ({ endpoint, message }, isAccepted) => {
    const madeAt = keyTime(message)
    const within = (c: Class, from: EpochMs, to: EpochMs) => find.get(endpoint, c, from, to, message)
    const replayed = within(replay, madeAt, madeAt)
    if (replayed !== undefined) return replayed
    const last = latest.get(message, endpoint)
    const nextAt = last?.next_at ?? null
    if (last === undefined && !isAccepted()) return undefined
    if (dead.get(endpoint, message) !== undefined) return undefined
    const near = within(fresh, madeAt - nearMs, madeAt + nearMs)
    // An attempt that was the last one left nothing in a queue, but for what blocks a lane that keeps an order.
    if (last !== undefined && nextAt === null) return near
    return (
      (nextAt === null ? undefined : within(timed, nextAt, nextAt)) ??
      near ??
      within(timed, 0, Number.MAX_SAFE_INTEGER) ??
      within(fresh, 0, Number.MAX_SAFE_INTEGER)
    )
  }
}
