import type { EpochMs } from '../../domain/clock.ts'
import { type Class, fresh, replay, timed } from '../../domain/delivery.ts'
import { keyTime } from '../../domain/ids.ts'
import { bringForwardMs, nearMs } from '../../features/dead-letters/store.ts'
import type { DeliveryKey } from '../messages.ts'
import { type Plan, plainly } from '../plan.ts'
import { firstLookMs } from '../publishing.ts'
import type { Store } from '../store.ts'
import { among, append, deleteListed, forShare, has, least, probe, ranges, rowsOf } from './dialect.ts'
import { inSpan, spanOf, spanOfKeys } from './message-rows.ts'
import type { Methods, Port, Sql, Transaction, Work } from './port.ts'
import { fragment, statement } from './statement.ts'

/** The fields of a `DeliveryKey`, for `rowsOf` and `deleteListed`. */
export const deliveryFields = { endpoint: 'bigint', message: 'bigint' } as const

// Each is a seek of a primary key.
export const ofDelivery = (table: string) =>
  `from ${table} where ${table}.message = wanted.message and ${table}.endpoint = wanted.endpoint`
export const latestAttempt = `${ofDelivery('attempt')} and ${inSpan('attempt.message')} order by n desc limit 1`
const selectProgress = statement<DeliveryKey & Progress>('progress')`
  select wanted.endpoint, wanted.message, (select n ${latestAttempt}) as n, (select next_at ${latestAttempt}) as next_at,
         (select 1 ${ofDelivery('dead')} limit 1) as dead,
         (select 1 ${ofDelivery('coalesced')} and ${inSpan('coalesced.message')} limit 1) as coalesced,
         (select deliver_at from message where key = wanted.message and ${inSpan('key')}) as deliver_at
    from ${rowsOf(':deliveries', 'wanted', deliveryFields)}`
const selectAccepted = statement<DeliveryKey>('accepted-among')`
  select wanted.endpoint, wanted.message from ${rowsOf(':deliveries', 'wanted', deliveryFields)}
  ${probe('message', `message.key = wanted.message and ${inSpan('message.key')}`)}
   where ${has('message.endpoints', 'wanted.endpoint')}`
// Each is a range of pending's primary key. The sum keeps the list of messages out of the index: Postgres would read the
// range once for each of them.
const searchRanges = statement<QueuePlace>('search-queues')`
  select pending.endpoint, pending.class, pending.message, pending.due_at
    from ${rowsOf(':ranges', 'wanted', { endpoint: 'bigint', class: 'integer', earliest: 'bigint', latest: 'bigint' })}
    ${ranges(
      'pending',
      fragment`pending.endpoint = wanted.endpoint and pending.class = wanted.class
       and pending.due_at >= wanted.earliest and pending.due_at <= wanted.latest
       and ${among('pending.message + 0', ':messages')}`,
    )}`
const selectQueued = statement<{ attempts: number }>('find-queued')`
  select attempts from pending
   where endpoint = :endpoint and class = :class and due_at = :due_at and message = :message`

// Locked, so that the body of none is erased as delivered until the transaction ends.
const selectSendable = statement<{ key: number; plan: Plan | null }>('sendable', { json: ['plan'] })`
  select key, plan from message
   where ${among('key', ':keys')} and ${inSpan('key')} and expunged_at is null ${forShare}`
const selectPresent = statement<{ key: number }>('present-endpoints')`
  select key from endpoint where ${among('key', ':keys')} and deleted_at is null`
export const deleteQueued = statement<DeliveryKey>('delete-queued')`
  ${deleteListed('pending', ':places', { endpoint: 'bigint', class: 'integer', due_at: 'bigint', message: 'bigint' })}`
/**
 * A replayed row is due when its message was made. So it is found without an index by message, replays run in the order
 * their messages came, and replaying twice finds the row taken. It does not expire: an operator wants it.
 */
const insertReplays = statement<DeliveryKey>('insert-replays')`
  insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, variant)
  select wanted.endpoint, ${replay}, wanted.made_at, wanted.message, :now, 0, coalesce((select n ${latestAttempt}), 0),
         wanted.order_key, wanted.variant
    from ${rowsOf(':rows', 'wanted', { ...deliveryFields, made_at: 'bigint', order_key: 'bigint', variant: 'integer' })}
   where true
  on conflict do nothing returning endpoint, message`
/** Deletes the dead letters that a list names. */
export const deleteDead = statement('delete-dead')`${deleteListed('dead', ':letters', deliveryFields)}`

// A body is erased at the end that was due when its deliveries were looked at, so moving the end keeps the body. An end that
// is due lies in the past, and this one does not. Most messages have no such end.
const movePayloadEnds = statement('move-payload-ends')`
  update payload_end set at = ${least('coalesce(over_at, :now + :least)', ':now + :least')}
   where ${among('message', ':messages')} and once_delivered`
// The endpoints of a message do not name an endpoint that it is replayed to without being accepted for it.
const addEndpoint = statement('add-to-payload-ends')`
  update payload_end set added_endpoints = ${append('added_endpoints', ':endpoint')}
   where ${among('message', ':messages')} and once_delivered and not ${has('added_endpoints', ':endpoint')}`
interface Progress {
  /** The number of the latest attempt; null before the first. */
  readonly n: number | null
  readonly next_at: EpochMs | null
  readonly dead: number | null
  /** Set when the delivery gave way to a newer message. */
  readonly coalesced: number | null
  /** When a message that was to be delivered later is due. */
  readonly deliver_at: EpochMs | null
}

/** The primary key of a row that waits. */
export interface QueuePlace extends DeliveryKey {
  readonly class: Class
  readonly due_at: EpochMs
}

const most = Number.MAX_SAFE_INTEGER
/**
 * Nearly every fresh row is due this close to the instant of its message. Looking there first spares reading all that an
 * endpoint was sent within `nearMs`, which is thousands of rows for each delivery.
 */
const soonMs = 50

/** Finds, adds and removes waiting deliveries. */
export function queues(port: Port): Methods<Pick<Store, 'replay' | 'findReplaying' | 'findQueued'>> {
  return {
    replay: (deliveries) => port.transaction((sql) => requeue(sql, deliveries)),

    *findReplaying(deliveries) {
      const found = yield* search(port, deliveries.map(replayRange))
      return found.map(({ endpoint, message }) => ({ endpoint, message }))
    },

    *findQueued(delivery) {
      const [found] = yield* findPlaces(port, [delivery])
      if (found === undefined) return undefined
      const row = yield* port.first(selectQueued, { ...found })
      return row && { class: found.class, dueAt: found.due_at, attempts: row.attempts }
    },
  }
}

/**
 * Queues deliveries once more, as `DeadLetters.replay` does, within a transaction. A dead letter of a deleted endpoint
 * stays: it can still be exported, and imported for another endpoint.
 */
export function* requeue(sql: Transaction, deliveries: readonly DeliveryKey[]): Work<DeliveryKey[]> {
  if (deliveries.length === 0) return []
  const sought = [...new Set(deliveries.map(({ message }) => message))]
  const messages = yield* sql.all(selectSendable, { keys: sought, ...spanOfKeys(sought) })
  const plans = new Map(messages.map(({ key, plan }) => [key, plan]))
  const keys = [...new Set(deliveries.map(({ endpoint }) => endpoint))]
  const present = new Set((yield* sql.all(selectPresent, { keys })).map(({ key }) => key))
  const wanted = deliveries.filter(({ endpoint, message }) => plans.has(message) && present.has(endpoint))

  const { places, strange } = yield* locate(sql, wanted)
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
  yield* sql.run(deleteDead, { letters: queued })
  yield* sql.run(movePayloadEnds, { messages: [...new Set(queued.map(({ message }) => message))], least: firstLookMs })
  for (const [endpoint, list] of Map.groupBy(strange, (delivery) => delivery.endpoint)) {
    yield* sql.run(addEndpoint, { endpoint, messages: list.map(({ message }) => message) })
  }
  yield* sql.queued([...new Set(queued.map(({ endpoint }) => endpoint))], replay)
  return queued
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

/** As `locate`, without the deliveries that never were. */
export function* findPlaces(
  sql: Sql,
  deliveries: readonly DeliveryKey[],
  { areAccepted = false } = {},
): Work<QueuePlace[]> {
  return (yield* locate(sql, deliveries, areAccepted)).places
}

interface Located {
  readonly places: QueuePlace[]
  /** Deliveries that never were: the message was not accepted for the endpoint, and not tried there. */
  readonly strange: DeliveryKey[]
}

/**
 * Finds the rows of deliveries. Rows are not indexed by message, since every delivery would pay for it; but a replay's
 * instant is known, a retry's is in the last attempt, a delayed row's in its message, and a fresh row's is that of its
 * message but for a moment. Only a row that must exist and is none of these is searched among all of its class: a dead
 * letter has no row. `areAccepted` says that the messages were accepted for these endpoints, which is otherwise looked up
 * where it matters.
 */
function* locate(sql: Sql, deliveries: readonly DeliveryKey[], areAccepted = false): Work<Located> {
  if (deliveries.length === 0) return { places: [], strange: [] }
  const progress = yield* sql.all(selectProgress, { deliveries: keysOf(deliveries), ...spanOf(deliveries) })
  const places = yield* search(sql, progress.flatMap(likelyRanges))
  const found = new Set(places.map(nameOf))
  const unfound = progress.filter((delivery) => {
    const hasNoRow = delivery.dead !== null || (delivery.n === null && delivery.coalesced !== null)
    return !hasNoRow && !found.has(nameOf(delivery))
  })
  const later = yield* search(sql, unfound.map(nearRange))
  places.push(...later)

  // A delivery whose latest attempt was its last is in no queue, unless it blocks an ordered lane in its first place.
  for (const place of later) found.add(nameOf(place))
  const missing = unfound.filter((delivery) => {
    return !(delivery.n !== null && delivery.next_at === null) && !found.has(nameOf(delivery))
  })
  const untried = areAccepted ? [] : missing.filter(({ n }) => n === null)
  const accepted =
    untried.length === 0 ? [] : yield* sql.all(selectAccepted, { deliveries: keysOf(untried), ...spanOf(untried) })
  const sought = [...missing.filter((delivery) => areAccepted || delivery.n !== null), ...accepted]
  const known = new Set(accepted.map(nameOf))
  return {
    places: [...places, ...(yield* search(sql, sought.flatMap(wholeClasses)))],
    strange: untried.filter((delivery) => !known.has(nameOf(delivery))),
  }
}

/** The rows of deliveries within ranges of their queues. Ranges that overlap are read once. */
function* search(sql: Sql, ranges: readonly SearchRange[]): Work<QueuePlace[]> {
  if (ranges.length === 0) return []
  const messages = [...new Set(ranges.map(({ message }) => message))]
  const sought = new Set(ranges.map(nameOf))
  return (yield* sql.all(searchRanges, { ranges: merged(ranges), messages })).filter((row) => sought.has(nameOf(row)))
}

function merged(ranges: readonly SearchRange[]): Omit<SearchRange, 'message'>[] {
  const sorted = ranges.toSorted(
    (a, b) => a.endpoint - b.endpoint || a.class - b.class || a.earliest - b.earliest || a.latest - b.latest,
  )
  const result: { endpoint: number; class: Class; earliest: EpochMs; latest: EpochMs }[] = []
  for (const { endpoint, class: itsClass, earliest, latest } of sorted) {
    const last = result.at(-1)
    const joins = last?.endpoint === endpoint && last.class === itsClass && earliest <= last.latest
    if (joins) last.latest = Math.max(last.latest, latest)
    else result.push({ endpoint, class: itsClass, earliest, latest })
  }
  return result
}

/** The few instants at which a delivery most likely waits. */
function likelyRanges(delivery: DeliveryKey & Progress): SearchRange[] {
  const { message, next_at: nextAt, deliver_at: deliverAt } = delivery
  const madeAt = keyTime(message)
  const ranges = [replayRange(delivery), rangeOf(delivery, fresh, madeAt - soonMs, madeAt + soonMs)]
  const laterAt = nextAt ?? deliverAt
  return laterAt === null ? ranges : [...ranges, rangeOf(delivery, timed, laterAt, laterAt)]
}

/** All instants at which a fresh row of the delivery can be due, but for a clock that was set. */
function nearRange(delivery: DeliveryKey): SearchRange {
  const madeAt = keyTime(delivery.message)
  return rangeOf(delivery, fresh, madeAt - nearMs, madeAt + nearMs)
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
