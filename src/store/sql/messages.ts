import type { Attempt, AttemptSummary, Message, MessageSummary } from '../../domain/delivery.ts'
import { decodeKey, firstKeyAt } from '../../domain/ids.ts'
import {
  type AttemptBrief,
  type Coalesced,
  type DestinationCount,
  expungedResponse,
  type ListedAttempt,
  type Messages,
  type Order,
  type RecentlyTried,
} from '../messages.ts'
import { among, has, lengthOf, probe, rowsOf } from './dialect.ts'
import {
  answerBytes,
  attemptColumns,
  attemptShape,
  attemptSummaryColumns,
  inSpan,
  messageColumns,
  messageShape,
  spanOf,
  spanOfKeys,
  summaryColumns,
  summaryShape,
  triedColumns,
} from './message-rows.ts'
import { deliveryFields, keysOf } from './pending-rows.ts'
import type { Methods, Port } from './port.ts'
import { beyond, direction, either, fragment, inBothOrders, listStart, statement } from './statement.ts'

const selectMessage = statement<Message>('message', messageShape)`
  select ${messageColumns} from message where key = :key`
const selectByEventId = statement<Message>('message-by-event-id', messageShape)`
  select ${messageColumns} from message
   where key = (select message from event_id where app = :app and event_id = :event_id)`
// Ranges of message_app. On Postgres, days outside of the range are left out when the statement starts.
const range = 'app = :app and key >= :from and key < :until'
const selectMessages = inBothOrders<MessageSummary>('messages', summaryShape)`
  select ${summaryColumns} from message where ${range} and key ${beyond} :after order by key ${direction} limit :limit`
const selectSummaries = statement<MessageSummary>('message-summaries', summaryShape)`
  select ${summaryColumns} from message where ${among('key', ':keys')} and ${inSpan('key')}`
const selectDestinations = statement<{ key: number; endpoints: number[] }>('message-destinations', {
  json: ['endpoints'],
})`
  select key, endpoints from message
   where ${among('key', ':keys')} and ${inSpan('key')}
     and ${lengthOf('endpoints')} <= cast(:most as bigint)`
const selectAccepted = statement<{ key: number }>('accepted-for')`
  select key from message
   where ${among('key', ':keys')} and ${inSpan('key')}
     and (${has('endpoints', ':endpoint')} or cast(plan as text) like '%"direct"%')
   order by key`
const countEndpoints = statement<DestinationCount>('count-destinations')`
  select count(*) as messages, cast(coalesce(sum(${lengthOf('endpoints')}), 0) as bigint) as destinations,
         max(key) as last
    from (select key, endpoints from message where ${range} and key > :after order by key limit :limit) as part`
// In the order of message_app, which keeps the planner to it.
export const countMessages = statement<{ count: number }>('count-messages')`
  select count(*) as count from (select 1 from message where ${range} order by key limit :limit) as listed`
const selectAnyMessage = statement<{ key: number }>('any-message')`select key from message limit 1`
const selectCounts = statement<Counts>('counts')`
  select (select count(*) from pending) as pending, (select count(*) from dead) as dead,
         (select count(*) from message) as messages, (select count(*) from attempt) as attempts`

// Ranges of attempt_endpoint. Only rows of one instant are sorted.
const selectAttempts = inBothOrders<ListedAttempt>('attempts-of-endpoint', { flags: ['isLatest'] })`
  select ${attemptSummaryColumns}, not exists (
           select 1 from attempt as later
            where later.message = attempt.message and later.endpoint = attempt.endpoint and later.n > attempt.n
         ) as "isLatest"
    from attempt
   where endpoint = :endpoint and at >= :from and at < :until and at ${beyond}= :at
     and (at, message, n) ${beyond} (:at, :message, :n)
   order by at ${direction}, message ${direction}, n ${direction} limit :limit`
// Read in the order of the primary key: planned on an empty table, Postgres would read all attempts by endpoint instead.
const selectAttempted = statement<{ endpoint: number }>('attempted-endpoints')`
  select distinct endpoint from (select endpoint from attempt where message = :message order by endpoint, n) as own
   order by endpoint`
// Leans on the primary key of attempts, read backwards from its end.
const selectRecent = statement<RecentlyTried>('recent-attempts')`
  select ${triedColumns} from attempt where message >= :from order by message desc, endpoint desc, n desc limit :limit`
const attemptsOf = 'from attempt where message = :message order by endpoint, n'
const selectAttemptsOf = statement<Attempt>('attempts', attemptShape)`select ${attemptColumns} ${attemptsOf}`
const selectBriefs = statement<AttemptBrief>('attempt-briefs')`
  select id, message, endpoint, n, at, status, code, ${answerBytes} as bytes ${attemptsOf}`
const selectAttempt = statement<Attempt>('attempt', attemptShape)`
  select ${attemptColumns} from attempt where message = :message and id = :id`
// On Postgres, in the order of n, so that only the primary key will do: while the table is small, a row looked up by its
// whole key would as well be sought among all of its endpoint's.
const wantedAttempts = rowsOf(':attempts', 'wanted', { message: 'bigint', endpoint: 'bigint', n: 'integer' })
const selectSomeAttempts = statement<Attempt & { readonly place: number }>('some-attempts', attemptShape)`${either(
  fragment`
    select place, ${attemptColumns} from ${wantedAttempts} join attempt using (message, endpoint, n)
     where ${inSpan('message')}`,
  fragment`
    select wanted.place, found.*
      from ${wantedAttempts}
     cross join lateral (
             select ${attemptColumns} from attempt
              where message = wanted.message and endpoint = wanted.endpoint and n <= wanted.n and ${inSpan('message')}
              order by n desc limit 1
           ) as found
     where found.n = wanted.n`,
)}`
const wantedDeliveries = rowsOf(':deliveries', 'wanted', deliveryFields)
const selectLatest = statement<AttemptSummary & { readonly place: number }>('latest-attempts')`${either(
  fragment`
    select place, ${attemptSummaryColumns} from ${wantedDeliveries} join attempt using (message, endpoint)
     where n = (select max(n) from attempt as every
                 where every.message = wanted.message and every.endpoint = wanted.endpoint)
       and ${inSpan('message')}`,
  fragment`
    select wanted.place, latest.*
      from ${wantedDeliveries}
     cross join lateral (
             select ${attemptSummaryColumns} from attempt
              where message = wanted.message and endpoint = wanted.endpoint and ${inSpan('message')}
              order by n desc limit 1
           ) as latest`,
)}`

const selectCoalesced = statement<Coalesced & { readonly place: number }>('find-coalesced')`
  select wanted.place, coalesced.at,
         (select id from message where message.key = coalesced.successor limit 1) as "into"
    from ${wantedDeliveries}
    ${probe(
      'coalesced',
      `coalesced.message = wanted.message and coalesced.endpoint = wanted.endpoint and ${inSpan('coalesced.message')}`,
    )}`

const thisAttempt = 'message = :message and endpoint = :endpoint and n = :n'
const expungeDead = statement('expunge-dead-response')`
  update dead set response = :response where endpoint = :endpoint and message = :message
     and response = (select response from attempt where ${thisAttempt})`
const expungeResponse = statement('expunge-response')`
  update attempt set response = :response, response_headers = null where ${thisAttempt}`

interface Counts {
  pending: number
  dead: number
  messages: number
  attempts: number
}

/** Messages and their attempts. */
export function messages(port: Port): Methods<Omit<Messages, 'expungeMessages' | 'deliveriesEnd' | 'eraseDelivered'>> {
  return {
    *findMessage(app, ref) {
      const key = decodeKey('msg', ref)
      const named = key === undefined ? undefined : yield* port.first(selectMessage, { key })
      const isNamed = named?.id === ref && named.app === app
      return isNamed ? named : yield* port.first(selectByEventId, { app, event_id: ref })
    },

    *listMessages(app, { from, until, after, order, limit }) {
      const values = { app, from, until, after: after ?? listStart(order), limit }
      return yield* port.all(selectMessages[order], values)
    },

    *loadSummaries(keys) {
      return keys.length === 0 ? [] : yield* port.all(selectSummaries, { keys, ...spanOfKeys(keys) })
    },

    *loadDestinations(keys, most) {
      return keys.length === 0 ? [] : yield* port.all(selectDestinations, { keys, most, ...spanOfKeys(keys) })
    },

    *acceptedFor(endpoint, keys) {
      if (keys.length === 0) return []
      return (yield* port.all(selectAccepted, { endpoint, keys, ...spanOfKeys(keys) })).map(({ key }) => key)
    },

    *countDestinations(app, { from, until, after, limit }) {
      const values = { app, from, until, after: after ?? listStart('ascending'), limit }
      return (yield* port.first(countEndpoints, values)) as DestinationCount
    },

    *counts() {
      return (yield* port.first(selectCounts)) as Counts
    },

    hasMessages: () => port.any(selectAnyMessage),

    *listAttempts(endpoint, { from, until, after, order, limit }) {
      const start = listStart(order)
      const { at, message, n } = after ?? { at: start, message: start, n: outermostOrdinal(order) }
      return yield* port.all(selectAttempts[order], { endpoint, from, until, at, message, n, limit })
    },

    *recentAttempts(withinMs, limit) {
      const from = firstKeyAt((yield* port.now()) - withinMs)
      return yield* port.all(selectRecent, { from, limit })
    },

    *attemptedEndpoints(message) {
      return (yield* port.all(selectAttempted, { message })).map(({ endpoint }) => endpoint)
    },

    attemptsOf: (message) => port.all(selectAttemptsOf, { message }),

    attemptBriefsOf: (message) => port.all(selectBriefs, { message }),

    *loadAttempts(wanted) {
      if (wanted.length === 0) return []
      const attempts = wanted.map(({ message, endpoint, n }) => ({ message, endpoint, n }))
      return inPlace(wanted, yield* port.all(selectSomeAttempts, { attempts, ...spanOf(attempts) }))
    },

    findAttempt: (message, id) => port.first(selectAttempt, { message, id }),

    *latestAttempts(wanted) {
      if (wanted.length === 0) return []
      return inPlace(wanted, yield* port.all(selectLatest, { deliveries: keysOf(wanted), ...spanOf(wanted) }))
    },

    *findCoalesced(wanted) {
      if (wanted.length === 0) return []
      return inPlace(wanted, yield* port.all(selectCoalesced, { deliveries: keysOf(wanted), ...spanOf(wanted) }))
    },

    *expungeAttempt({ message, endpoint, n }) {
      const values = { message, endpoint, n, response: expungedResponse }
      yield* port.transaction(function* (sql) {
        yield* sql.run(expungeDead, values)
        yield* sql.run(expungeResponse, values)
      })
    },
  }
}

/** The rows in the order in which they were asked for; undefined where there is none. */
export function inPlace<Row extends { readonly place: number }>(
  asked: readonly unknown[],
  rows: readonly Row[],
): (Omit<Row, 'place'> | undefined)[] {
  const found = new Map(rows.map(({ place, ...row }) => [place, row]))
  return asked.map((_, i) => found.get(i + 1))
}

/** As `listStart`, for a column of four bytes. */
function outermostOrdinal(order: Order): number {
  return order === 'ascending' ? -1 : 2 ** 31 - 1
}
