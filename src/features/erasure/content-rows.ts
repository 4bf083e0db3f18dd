import type { EpochMs } from '../../domain/clock.ts'
import type { DeadLetter } from '../../domain/delivery.ts'
import { keyTime } from '../../domain/ids.ts'
import { type DeliveryKey, expungedResponse, type Messages } from '../../store/messages.ts'
import { among, bytes, forUpdate, listed, rowsOf } from '../../store/sql/dialect.ts'
import { deleteOf, inSpan, spanOf, spanOfKeys } from '../../store/sql/message-rows.ts'
import { deleteQueued, deliveryFields, findPlaces, latestAttempt, ofDelivery } from '../../store/sql/pending-rows.ts'
import type { Methods, Port, Sql, Transaction, Work } from '../../store/sql/port.ts'
import { fragment, type Shape, statement } from '../../store/sql/statement.ts'

/** The columns beside the body that are sent with it, and those that its producer chose for searching and ordering. */
const sentColumns = 'headers = null, arrived_headers = null, trace = null'
export const producerColumns = `${sentColumns}, ordering_key = null, channels = null, tags = null`

/** A message as erasing sees it. */
export interface ErasableMessage {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly event_id: string | null
  readonly endpoints: number[]
  readonly expunged: boolean
  readonly expanding: boolean
}

const messagesNamed = fragment`
  select key, id, app, event_id, endpoints, expunged_at is not null as expunged,
         exists (select 1 from fan_out where fan_out.message = message.key) as expanding
    from message where ${among('key', ':messages')} and ${inSpan('key')} order by key`
const namedShape: Shape<ErasableMessage> = { json: ['endpoints'], flags: ['expunged', 'expanding'] }
// The lock comes first: a replay either sees that the body is gone, or has queued its row and is seen here. In one order,
// so that no two erasures wait for each other.
const lockMessages = statement<ErasableMessage>('lock-messages', namedShape)`${messagesNamed} ${forUpdate}`
const selectMessages = statement<ErasableMessage>('erasable-messages', namedShape)`${messagesNamed}`
/** Erases the bodies of messages together with other columns. */
export const erasingBodies = (name: string, others: string) =>
  statement(name)`
    update message set body = ${bytes(':nothing')}, plan = null, expunged_at = coalesce(expunged_at, :now), ${others}
     where ${among('key', ':messages')} and ${inSpan('key')}`
const eraseMessages = erasingBodies('erase-messages', producerColumns)
const dropBodies = erasingBodies('drop-bodies', `${sentColumns}, erase_reason = 'delivered'`)
const selectPayloadEnds = statement<{ message: number; at: EpochMs }>('payload-ends-of')`
  select message, at from payload_end where ${among('message', ':messages')}`

// Read in the order of the primary key: planned on an empty table, Postgres would read all attempts by endpoint instead.
const selectAttempted = statement<DeliveryKey>('attempted-of')`
  select distinct message, endpoint
    from (select message, endpoint from attempt
           where ${among('message', ':messages')} and ${inSpan('message')}
           order by message, endpoint, n) as own`
// A receiver may have echoed the message, in its answer or in a location that the error quotes. The sum keeps the list of
// endpoints out of the index: each pair of a message and an endpoint would be sought.
const ofDeliveries = fragment`${among('message', ':messages')} and ${among('endpoint + 0', ':endpoints')}`
const answerless = fragment`error = null, response = case when response is not null then ${bytes(':response')} end`
const eraseAttempts = statement<{ n: number }>('erase-attempts')`
  update attempt set ${answerless}, response_headers = null
   where ${ofDeliveries} and ${inSpan('message')}
     and (error is not null or response_headers is not null or response <> ${bytes(':response')})
  returning n`
const eraseDead = statement<ErasedDead>('erase-dead')`
  update dead set ${answerless}
   where ${listed('dead', ':deliveries', deliveryFields)}
  returning endpoint, message, died_at as "diedAt"`

const selectDestinations = statement<{ endpoints: number[]; added: number[] | null; expanding: boolean }>(
  'destinations',
  { json: ['endpoints', 'added'], flags: ['expanding'] },
)`
  select endpoints, (select added_endpoints from payload_end where payload_end.message = message.key) as added,
         exists (select 1 from fan_out where fan_out.message = message.key) as expanding
    from message where key = :message`
const selectEnds = statement<{ code: string | null } & Record<'ended_at' | 'died_at' | 'gave_way_at', EpochMs | null>>(
  'delivery-ends',
)`
  select (select code ${latestAttempt}) as code, (select at + duration_ms ${latestAttempt}) as ended_at,
         (select died_at ${ofDelivery('dead')} limit 1) as died_at,
         (select at ${ofDelivery('coalesced')} and ${inSpan('coalesced.message')} limit 1) as gave_way_at
    from ${rowsOf(':deliveries', 'wanted', deliveryFields)}`
/** Endpoints of a message whose deliveries are looked at in one call. */
const endsAtOnce = 200

/** Locks messages, by key. Those that are gone are left out. */
export function* lockAll(sql: Transaction, messages: readonly number[]): Work<ErasableMessage[]> {
  return messages.length === 0 ? [] : yield* sql.all(lockMessages, { messages, ...spanOfKeys(messages) })
}

/** The messages of which a delivery waits, or is still to be queued. */
export function* waitingMessages(sql: Sql, messages: readonly number[]): Work<number[]> {
  if (messages.length === 0) return []
  const rows = yield* sql.all(selectMessages, { messages, ...spanOfKeys(messages) })
  const deliveries = [...acceptedDeliveries(rows), ...(yield* strayDeliveries(sql, rows))]
  const places = yield* findPlaces(sql, deliveries, { areAccepted: true })
  const expanding = rows.filter((row) => row.expanding).map(({ key }) => key)
  return [...new Set([...places.map(({ message }) => message), ...expanding])]
}

function acceptedDeliveries(messages: readonly ErasableMessage[]): DeliveryKey[] {
  return messages.flatMap(({ key, endpoints }) => endpoints.map((endpoint) => ({ endpoint, message: key })))
}

/** Deletes the shaped bodies of messages, and ends their expansion. */
export function* deleteForms(sql: Sql, messages: readonly number[]): Work<void> {
  if (messages.length === 0) return
  const values = { messages, ...spanOfKeys(messages) }
  yield* sql.run(deleteOf.variant, values)
  yield* sql.run(deleteOf.fan_out, values)
}

/** Takes messages out of the index by their data subjects. */
export function* unindex(sql: Sql, messages: readonly number[]): Work<void> {
  if (messages.length > 0) yield* sql.run(deleteOf.subject, { messages, ...spanOfKeys(messages) })
}

/** The deliveries of messages that were tried at endpoints which they were not accepted for. */
export function* strayDeliveries(sql: Sql, messages: readonly ErasableMessage[]): Work<DeliveryKey[]> {
  if (messages.length === 0) return []
  const keys = messages.map(({ key }) => key)
  const accepted = new Map(messages.map(({ key, endpoints }) => [key, new Set(endpoints)]))
  const attempted = yield* sql.all(selectAttempted, { messages: keys, ...spanOfKeys(keys) })
  return attempted.filter(({ message, endpoint }) => accepted.get(message)?.has(endpoint) === false)
}

/** A dead letter, and when it died. */
type ErasedDead = DeliveryKey & Pick<DeadLetter, 'diedAt'>

/** The rows whose answers were erased. */
export interface ErasedAnswers {
  readonly attempts: number
  readonly dead: readonly ErasedDead[]
}

/** Erases the answers of receivers to deliveries: all deliveries of several messages, or some of one. */
export function* eraseAnswers(sql: Sql, deliveries: readonly DeliveryKey[]): Work<ErasedAnswers> {
  if (deliveries.length === 0) return { attempts: 0, dead: [] }
  const messages = [...new Set(deliveries.map(({ message }) => message))]
  const endpoints = [...new Set(deliveries.map(({ endpoint }) => endpoint))]
  const values = { messages, endpoints, response: expungedResponse, ...spanOfKeys(messages) }
  const attempts = yield* sql.count(eraseAttempts, values)
  const dead = yield* sql.all(eraseDead, { deliveries, response: expungedResponse })
  return { attempts, dead }
}

/** Finds out when the deliveries of a message have ended, and erases bodies. */
export function erasing(port: Port): Methods<Pick<Messages, 'expungeMessages' | 'deliveriesEnd' | 'eraseDelivered'>> {
  return {
    *deliveriesEnd(message, from) {
      const madeAt = keyTime(message)
      // One reading of both: a message that is expanded meanwhile is seen with its rows.
      const row = yield* port.first(selectDestinations, { message })
      if (row === undefined) return { at: madeAt, allDelivered: false, next: null }
      if (row.expanding) return undefined
      const end = from + endsAtOnce
      const endpoints = [...row.endpoints, ...(row.added ?? [])]
      const deliveries = endpoints.slice(from, end).map((endpoint) => ({ endpoint, message }))
      const next = end < endpoints.length ? end : null
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
        // The lock comes first: a replay either sees that the body is gone, or has moved the end and is seen here.
        const locked = yield* lockAll(
          sql,
          ends.map(({ message }) => message),
        )
        const present = new Set(locked.filter(({ expunged }) => !expunged).map(({ key }) => key))
        const stored = yield* sql.all(selectPayloadEnds, { messages: [...present] })
        const endOf = new Map(stored.map(({ message, at }) => [message, at]))
        const meant = ends.filter(({ message, at }) => present.has(message) && endOf.get(message) === at)
        const messages = meant.map(({ message }) => message)
        if (messages.length === 0) return []
        const values = { messages, ...spanOfKeys(messages) }
        yield* sql.run(dropBodies, { ...values, nothing: new Uint8Array() })
        yield* sql.run(deleteOf.variant, values)
        yield* sql.expunged(messages)
        return messages
      })
    },

    *expungeMessages(list) {
      yield* port.erase(function* (sql) {
        const locked = yield* lockAll(sql, list)
        if (locked.length === 0) return
        const messages = locked.map(({ key }) => key)
        yield* sql.run(eraseMessages, { messages, ...spanOfKeys(messages), nothing: new Uint8Array() })
        yield* deleteForms(sql, messages)
        yield* unindex(sql, messages)
        const deliveries = [...acceptedDeliveries(locked), ...(yield* strayDeliveries(sql, locked))]
        const places = yield* findPlaces(sql, deliveries, { areAccepted: true })
        if (places.length > 0) yield* sql.run(deleteQueued, { places })
        // On Postgres the deletion waited for settlements of these rows, which had recorded their attempts by then.
        yield* eraseAnswers(sql, deliveries)
        yield* sql.expunged(messages)
      })
    },
  }
}
