import type { EpochMs } from '../../domain/clock.ts'
import { type Class, fresh, replay, timed } from '../../domain/delivery.ts'
import { keyTime } from '../../domain/ids.ts'
import { bringForwardMs, type DeadLetters, nearMs } from '../dead-letters.ts'
import { countLimit, type Lanes } from '../lanes.ts'
import { type DeliveryKey, expungedResponse, type Messages } from '../messages.ts'
import { type Plan, plainly } from '../plan.ts'
import { firstLookMs } from '../publishing.ts'
import { inSpan, spanOf } from './message-rows.ts'
import { selectAttempted } from './messages.ts'
import type { Methods, Port, Sql, Transaction, Work } from './port.ts'
import { statement } from './statement.ts'

/** The fields of a `DeliveryKey`, for `rowsOf` and `deleteListed`. */
export const deliveryFields = { endpoint: 'bigint', message: 'bigint' } as const

// Each is a seek of a primary key.
const ofDelivery = (table: string) =>
  `from ${table} where ${table}.message = wanted.message and ${table}.endpoint = wanted.endpoint`
const latestAttempt = `${ofDelivery('attempt')} and ${inSpan('attempt.message')} order by n desc limit 1`
const selectProgress = statement<DeliveryKey & Progress>(
  'progress',
  ({ rowsOf }) => `
    select wanted.endpoint, wanted.message, (select n ${latestAttempt}) as n, (select next_at ${latestAttempt}) as next_at,
           (select 1 ${ofDelivery('dead')} limit 1) as dead
      from ${rowsOf(':deliveries', 'wanted', deliveryFields)}`,
)
const selectAccepted = statement<DeliveryKey>(
  'accepted-among',
  ({ rowsOf, probe, has }) => `
    select wanted.endpoint, wanted.message from ${rowsOf(':deliveries', 'wanted', deliveryFields)}
    ${probe('message', `message.key = wanted.message and ${inSpan('message.key')}`)}
     where ${has('message.endpoints', 'wanted.endpoint')}`,
)
// Each is a range of pending's primary key, and ends at the first row found.
const searchRanges = statement<DeliveryKey & { readonly class: Class; readonly due_at: EpochMs | null }>(
  'search-queues',
  ({ rowsOf }) => `
    select wanted.endpoint, wanted.class, wanted.message, (
             select due_at from pending
              where pending.endpoint = wanted.endpoint and pending.class = wanted.class
                and pending.due_at >= wanted.earliest and pending.due_at <= wanted.latest
                and pending.message = wanted.message limit 1
           ) as due_at
      from ${rowsOf(':ranges', 'wanted', { ...deliveryFields, class: 'integer', earliest: 'bigint', latest: 'bigint' })}`,
)
const selectQueued = statement<{ attempts: number; ahead: number }>(
  'find-queued',
  `select attempts, (
            select count(*) from (
              select 1 from pending
               where endpoint = :endpoint and class = :class and (due_at, message) < (:due_at, :message)
               limit ${countLimit}) as counted) as ahead
     from pending where endpoint = :endpoint and class = :class and due_at = :due_at and message = :message`,
)

// Locked, so that the body of none is erased as delivered until the transaction ends.
const selectSendable = statement<{ key: number; plan: Plan | null }>(
  'sendable',
  ({ among, forShare }) => `
    select key, plan from message where ${among('key', ':keys', 'bigint')} and expunged_at is null ${forShare}`,
  { json: ['plan'] },
)
const selectPresent = statement<{ key: number }>(
  'present-endpoints',
  ({ among }) => `select key from endpoint where ${among('key', ':keys', 'bigint')} and deleted_at is null`,
)
const deleteQueued = statement<DeliveryKey>('delete-queued', ({ deleteListed }) =>
  deleteListed(
    'pending',
    ':places',
    { endpoint: 'bigint', class: 'integer', due_at: 'bigint', message: 'bigint' },
    `pending.endpoint = listed.endpoint and pending.class = listed.class and pending.due_at = listed.due_at
       and pending.message = listed.message`,
  ),
)
/**
 * A replayed row is due when its message was made. So it is found without an index by message, replays run in the order
 * their messages came, and replaying twice finds the row taken. It does not expire: an operator wants it.
 */
const insertReplays = statement<DeliveryKey>(
  'insert-replays',
  ({ rowsOf }) => `
    insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, variant)
    select wanted.endpoint, ${replay}, wanted.made_at, wanted.message, :now, 0, coalesce((select n ${latestAttempt}), 0),
           wanted.order_key, wanted.variant
      from ${rowsOf(':rows', 'wanted', { ...deliveryFields, made_at: 'bigint', order_key: 'bigint', variant: 'integer' })}
     where true
    on conflict do nothing returning endpoint, message`,
)
/** Deletes the dead letters that a list names. */
export const deleteDead = statement('delete-dead', ({ deleteListed }) =>
  deleteListed('dead', ':letters', deliveryFields, 'dead.endpoint = listed.endpoint and dead.message = listed.message'),
)

const eraseMessage = statement<{ endpoints: number[] }>(
  'erase-message',
  ({ bytes }) => `
    update message set body = ${bytes(':nothing')}, headers = null, ordering_key = null, channels = null, tags = null,
           plan = null, trace = null, expunged_at = coalesce(expunged_at, :now)
     where key = :message
    returning endpoints`,
  { json: ['endpoints'] },
)
const lockBody = statement(
  'lock-body',
  ({ forUpdate }) => `select key from message where key = :message and expunged_at is null ${forUpdate}`,
)
const selectPayloadEnd = statement<{ at: EpochMs }>(
  'payload-end',
  'select at from payload_end where message = :message',
)
// A body is erased at the end that was due when its deliveries were looked at, so moving the end keeps the body. An end that
// is due lies in the past, and this one does not. Most messages have no such end.
const movePayloadEnds = statement(
  'move-payload-ends',
  ({ among, least }) => `
    update payload_end set at = ${least('coalesce(over_at, :now + :least)', ':now + :least')}
     where ${among('message', ':messages', 'bigint')} and once_delivered`,
)
const dropBody = statement(
  'drop-body',
  ({ bytes }) => `
    update message set body = ${bytes(':nothing')}, headers = null, plan = null, trace = null, expunged_at = :now,
           erase_reason = 'delivered'
     where key = :message`,
)
const deleteVariants = statement('delete-variants', 'delete from variant where message = :message')
const deleteFanOut = statement('stop-fan-out', 'delete from fan_out where message = :message')
// A receiver may have echoed the message, in its answer or in a location that the error quotes.
const eraseAttempts = statement(
  'erase-attempts',
  ({ bytes }) => `
    update attempt set error = null, response = case when response is not null then ${bytes(':response')} end,
           response_headers = null
     where message = :message`,
)
const eraseDead = statement(
  'erase-dead',
  ({ among, bytes }) => `
    update dead set error = null, response = case when response is not null then ${bytes(':response')} end
     where ${among('endpoint', ':endpoints', 'bigint')} and message = :message`,
)
// Leans on unfiled_message.
const eraseUnfiled = statement(
  'erase-unfiled',
  ({ bytes }) => `
    update unfiled set error = null, response = case when response is not null then ${bytes(':response')} end
     where message = :message`,
)

const selectDestinations = statement<{ endpoints: number[]; expanding: boolean }>(
  'destinations',
  `select endpoints, exists (select 1 from fan_out where fan_out.message = message.key) as expanding
     from message where key = :message`,
  { json: ['endpoints'], flags: ['expanding'] },
)
const selectEnds = statement<{ code: string | null } & Record<'ended_at' | 'died_at' | 'gave_way_at', EpochMs | null>>(
  'delivery-ends',
  ({ rowsOf }) => `
    select (select code ${latestAttempt}) as code, (select at + duration_ms ${latestAttempt}) as ended_at,
           (select died_at ${ofDelivery('dead')} limit 1) as died_at,
           (select at ${ofDelivery('coalesced')} and ${inSpan('coalesced.message')} limit 1) as gave_way_at
      from ${rowsOf(':deliveries', 'wanted', deliveryFields)}`,
)
/** Endpoints of a message whose deliveries are looked at in one call. */
const endsAtOnce = 200

interface Progress {
  /** The number of the latest attempt; null before the first. */
  readonly n: number | null
  readonly next_at: EpochMs | null
  readonly dead: number | null
}

/** The primary key of a row that waits. */
interface QueuePlace extends DeliveryKey {
  readonly class: Class
  readonly due_at: EpochMs
}

const most = Number.MAX_SAFE_INTEGER

type QueueMethods = Pick<DeadLetters, 'replay' | 'findReplaying'> &
  Pick<Lanes, 'findQueued'> &
  Pick<Messages, 'expungeMessage' | 'deliveriesEnd' | 'eraseDelivered'>

/** Finds, adds and removes waiting deliveries. */
export function queues(port: Port): Methods<QueueMethods> {
  return {
    *replay(deliveries) {
      return yield* port.transaction((sql) => requeue(sql, deliveries))
    },

    *findReplaying(deliveries) {
      const found = yield* search(port, deliveries.map(replayRange))
      return found.map(({ endpoint, message }) => ({ endpoint, message }))
    },

    *findQueued(delivery) {
      const [found] = yield* findPlaces(port, [delivery])
      if (found === undefined) return undefined
      const row = yield* port.first(selectQueued, { ...found })
      return row && { class: found.class, dueAt: found.due_at, attempts: row.attempts, ahead: row.ahead }
    },

    *deliveriesEnd(message, from) {
      const madeAt = keyTime(message)
      // One reading of both: a message that is expanded meanwhile is seen with its rows.
      const row = yield* port.first(selectDestinations, { message })
      if (row === undefined) return { at: madeAt, allDelivered: false, next: null }
      if (row.expanding) return undefined
      const end = from + endsAtOnce
      const deliveries = row.endpoints.slice(from, end).map((endpoint) => ({ endpoint, message }))
      const next = end < row.endpoints.length ? end : null
      if (deliveries.length === 0) return { at: madeAt, allDelivered: true, next }
      if ((yield* findPlaces(port, deliveries, { areAccepted: true })).length > 0) return undefined
      const ends = yield* port.all(selectEnds, { deliveries, ...spanOf(deliveries) })
      const instants = ends.flatMap(({ ended_at: endedAt, died_at: diedAt, gave_way_at: gaveWayAt }) => [
        endedAt ?? madeAt,
        diedAt ?? madeAt,
        gaveWayAt ?? madeAt,
      ])
      const allDelivered = ends.every(({ code }) => code === 'delivered')
      return { at: Math.max(madeAt, ...instants), allDelivered, next }
    },

    *eraseDelivered(ends) {
      return yield* port.erase(function* (sql) {
        const erased: number[] = []
        for (const { message, at } of ends) {
          // The lock comes first: a replay either sees that the body is gone, or has moved the end and is seen here.
          if ((yield* sql.first(lockBody, { message })) === undefined) continue
          if ((yield* sql.first(selectPayloadEnd, { message }))?.at !== at) continue
          yield* sql.all(dropBody, { message, nothing: new Uint8Array() })
          yield* sql.all(deleteVariants, { message })
          erased.push(message)
        }
        if (erased.length > 0) yield* sql.expunged(erased)
        return erased
      })
    },

    *expungeMessage(message) {
      yield* port.erase(function* (sql) {
        const row = yield* sql.first(eraseMessage, { message, nothing: new Uint8Array() })
        if (row === undefined) return
        const attempted = yield* sql.all(selectAttempted, { message })
        const endpoints = [...new Set([...row.endpoints, ...attempted.map(({ endpoint }) => endpoint)])]
        yield* sql.all(deleteVariants, { message })
        yield* sql.all(deleteFanOut, { message })
        const deliveries = endpoints.map((endpoint) => ({ endpoint, message }))
        const places = yield* findPlaces(sql, deliveries, { areAccepted: true })
        if (places.length > 0) yield* sql.all(deleteQueued, { places })
        // On Postgres the deletion waited for settlements of these rows, which had recorded their attempts by then.
        yield* sql.all(eraseAttempts, { message, response: expungedResponse })
        yield* sql.all(eraseDead, { message, endpoints, response: expungedResponse })
        yield* sql.all(eraseUnfiled, { message, response: expungedResponse })
        yield* sql.expunged([message])
      })
    },
  }
}

/**
 * Queues deliveries once more, as `DeadLetters.replay` does, within a transaction. A dead letter of a deleted endpoint
 * stays: it can still be exported, and imported for another endpoint.
 */
export function* requeue(sql: Transaction, deliveries: readonly DeliveryKey[]): Work<DeliveryKey[]> {
  if (deliveries.length === 0) return []
  const messages = yield* sql.all(selectSendable, { keys: [...new Set(deliveries.map(({ message }) => message))] })
  const plans = new Map(messages.map(({ key, plan }) => [key, plan]))
  const keys = [...new Set(deliveries.map(({ endpoint }) => endpoint))]
  const present = new Set((yield* sql.all(selectPresent, { keys })).map(({ key }) => key))
  const wanted = deliveries.filter(({ endpoint, message }) => plans.has(message) && present.has(endpoint))

  const places = yield* findPlaces(sql, wanted)
  const later = places.filter((found) => found.class === timed)
  const latest = later.length === 0 ? 0 : (yield* sql.now()) + bringForwardMs
  const early = later.filter((found) => found.due_at > latest)
  const broughtForward = early.length === 0 ? [] : yield* sql.all(deleteQueued, { places: early })
  const waiting = new Set(places.map(nameOf))
  for (const delivery of broughtForward) waiting.delete(nameOf(delivery))
  const rows = wanted
    .filter((delivery) => !waiting.has(nameOf(delivery)))
    .map(({ endpoint, message }) => {
      const { orderKey = null, variant = null } = plans.get(message)?.[endpoint] ?? plainly
      return { endpoint, message, made_at: keyTime(message), order_key: orderKey, variant }
    })
    // In one order, so that no two replays of the same deliveries wait for each other.
    .sort((a, b) => a.endpoint - b.endpoint || a.message - b.message)
  const queued = rows.length === 0 ? [] : yield* sql.all(insertReplays, { rows, ...spanOf(rows) })
  if (queued.length === 0) return []
  yield* sql.all(deleteDead, { letters: queued })
  yield* sql.all(movePayloadEnds, { messages: [...new Set(queued.map(({ message }) => message))], least: firstLookMs })
  yield* sql.queued([...new Set(queued.map(({ endpoint }) => endpoint))], replay)
  return queued
}

/** Whether a delivery waits in its endpoint's queue. */
export function* isQueued(sql: Sql, delivery: DeliveryKey): Work<boolean> {
  return (yield* findPlaces(sql, [delivery])).length > 0
}

/** Deliveries without any other field, to be listed in a statement. */
export function keysOf(deliveries: readonly DeliveryKey[]): DeliveryKey[] {
  return deliveries.map(({ endpoint, message }) => ({ endpoint, message }))
}

interface SearchRange extends DeliveryKey {
  readonly class: Class
  readonly earliest: EpochMs
  readonly latest: EpochMs
}

/**
 * Finds the rows of deliveries. Rows are not indexed by message, since every delivery would pay for it; but a replay's
 * instant is known, a retry's is in the last attempt, and a fresh row's is that of its message but for a moment. Only a
 * row that must exist and is none of these is searched among all of its class: a dead letter has no row. `areAccepted`
 * says that the messages were accepted for these endpoints, which is otherwise looked up where it matters.
 */
function* findPlaces(sql: Sql, deliveries: readonly DeliveryKey[], { areAccepted = false } = {}): Work<QueuePlace[]> {
  if (deliveries.length === 0) return []
  const progress = yield* sql.all(selectProgress, { deliveries: keysOf(deliveries), ...spanOf(deliveries) })
  const places = yield* search(sql, progress.flatMap(likelyRanges))

  // A delivery whose latest attempt was its last is in no queue, unless it blocks an ordered lane in its first place.
  const found = new Set(places.map(nameOf))
  const missing = progress.filter(({ n, next_at: nextAt, dead, ...delivery }) => {
    return dead === null && !(n !== null && nextAt === null) && !found.has(nameOf(delivery))
  })
  const untried = areAccepted ? [] : missing.filter(({ n }) => n === null)
  const accepted =
    untried.length === 0 ? [] : yield* sql.all(selectAccepted, { deliveries: keysOf(untried), ...spanOf(untried) })
  const sought = [...missing.filter((delivery) => areAccepted || delivery.n !== null), ...accepted]
  return [...places, ...(yield* search(sql, sought.flatMap(wholeClasses)))]
}

function* search(sql: Sql, ranges: readonly SearchRange[]): Work<QueuePlace[]> {
  if (ranges.length === 0) return []
  const places = new Map<string, QueuePlace>()
  for (const { due_at: dueAt, ...delivery } of yield* sql.all(searchRanges, { ranges })) {
    if (dueAt !== null && !places.has(nameOf(delivery))) places.set(nameOf(delivery), { ...delivery, due_at: dueAt })
  }
  return [...places.values()]
}

/** The few instants at which a delivery most likely waits. */
function likelyRanges(delivery: DeliveryKey & Progress): SearchRange[] {
  const { message, next_at: nextAt } = delivery
  const madeAt = keyTime(message)
  const ranges = [replayRange(delivery), rangeOf(delivery, fresh, madeAt - nearMs, madeAt + nearMs)]
  return nextAt === null ? ranges : [...ranges, rangeOf(delivery, timed, nextAt, nextAt)]
}

function replayRange(delivery: DeliveryKey): SearchRange {
  const madeAt = keyTime(delivery.message)
  return rangeOf(delivery, replay, madeAt, madeAt)
}

function wholeClasses(delivery: DeliveryKey): SearchRange[] {
  return [rangeOf(delivery, timed, 0, most), rangeOf(delivery, fresh, 0, most)]
}

function rangeOf(delivery: DeliveryKey, itsClass: Class, earliest: EpochMs, latest: EpochMs): SearchRange {
  return { endpoint: delivery.endpoint, message: delivery.message, class: itsClass, earliest, latest }
}

function nameOf({ endpoint, message }: DeliveryKey): string {
  return `${endpoint} ${message}`
}
