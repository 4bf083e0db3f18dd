import type { EpochMs } from '../../domain/clock.ts'
import { keyTime } from '../../domain/ids.ts'
import { expungedResponse, type Messages } from '../messages.ts'
import { inSpan, spanOf } from './message-rows.ts'
import { selectAttempted } from './messages.ts'
import type { Methods, Port } from './port.ts'
import { deleteQueued, deliveryFields, findPlaces, latestAttempt, ofDelivery } from './queues.ts'
import { statement } from './statement.ts'

/** The columns beside the body that are sent with it, and those that its producer chose for searching and ordering. */
const sentColumns = 'headers = null, arrived_headers = null, trace = null'
export const producerColumns = `${sentColumns}, ordering_key = null, channels = null, tags = null`
const eraseMessage = statement<{ endpoints: number[] }>(
  'erase-message',
  ({ bytes }) => `
    update message set body = ${bytes(':nothing')}, ${producerColumns}, plan = null,
           expunged_at = coalesce(expunged_at, :now)
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
const dropBody = statement(
  'drop-body',
  ({ bytes }) => `
    update message set body = ${bytes(':nothing')}, ${sentColumns}, plan = null, expunged_at = :now,
           erase_reason = 'delivered'
     where key = :message`,
)
export const deleteVariants = statement('delete-variants', 'delete from variant where message = :message')
/** The index of the message by its data subjects. */
export const deleteSubjects = statement('delete-subjects', 'delete from subject where message = :message')
export const deleteFanOut = statement('stop-fan-out', 'delete from fan_out where message = :message')
// A receiver may have echoed the message, in its answer or in a location that the error quotes.
const eraseAttempts = statement(
  'erase-attempts',
  ({ bytes }) => `
    update attempt set error = null, response = case when response is not null then ${bytes(':response')} end,
           response_headers = null
     where message = :message`,
)
export const eraseDead = statement(
  'erase-dead',
  ({ among, bytes }) => `
    update dead set error = null, response = case when response is not null then ${bytes(':response')} end
     where ${among('endpoint', ':endpoints', 'bigint')} and message = :message
    returning endpoint`,
)
// Leans on unfiled_message.
const eraseUnfiled = statement(
  'erase-unfiled',
  ({ bytes }) => `
    update unfiled set error = null, response = case when response is not null then ${bytes(':response')} end
     where message = :message`,
)

const selectDestinations = statement<{ endpoints: number[]; added: number[] | null; expanding: boolean }>(
  'destinations',
  `select endpoints, (select added_endpoints from payload_end where payload_end.message = message.key) as added,
          exists (select 1 from fan_out where fan_out.message = message.key) as expanding
     from message where key = :message`,
  { json: ['endpoints', 'added'], flags: ['expanding'] },
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

/** Finds out when the deliveries of a message have ended, and erases bodies. */
export function erasing(port: Port): Methods<Pick<Messages, 'expungeMessage' | 'deliveriesEnd' | 'eraseDelivered'>> {
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
        yield* sql.all(deleteSubjects, { message })
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
