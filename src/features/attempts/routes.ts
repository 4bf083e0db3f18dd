import type { EpochMs } from '../../domain/clock.ts'
import { decodeKey } from '../../domain/ids.ts'
import { withFields } from '../../json/exact.ts'
import { admin, view } from '../../operations/access.ts'
import { listOf } from '../../operations/fields.ts'
import { fromItem, itemBytes, numbers, PageQuery, type Walked, walk, writePage } from '../../operations/page.ts'
import { type Noun, route, type Things } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import type { ListedAttempt, Order } from '../../store/messages.ts'
import { toEndpointOut } from '../endpoints/schemas.ts'
import { messagesAsBytes } from '../messages/schemas.ts'
import type { Explainer, Look, WaitingDelivery } from '../why/service.ts'
import {
  type AttemptPlace,
  attemptsAt,
  attemptsOf,
  behindAttempt,
  behindMessage,
  meetsAttempt,
  statusesOf,
  type Tried,
  writeAttempts,
} from './list-service.ts'
import {
  AttemptedQuery,
  AttemptQuery,
  AttemptsAtQuery,
  EndpointMessageOut,
  isWaiting,
  MessageAttemptOut,
  MessageEndpointOut,
  OneAttemptQuery,
  type StatusFacts,
  shownStatus,
  toAttemptOut,
  toStatusOut,
} from './schemas.ts'

const shorterPages = 'When a filter skips many rows, a page may be shorter than asked: continue until `done`.'

/** The list of a message's attempts, which has two paths. */
const listByMessage = {
  query: AttemptQuery,
  answers: { 200: listOf(MessageAttemptOut) },
  handle: (call: Pick<Things, 'app' | 'message'> & { query: AttemptQuery }, services: Services) =>
    attemptsOf(services, call, call.query),
}

export const attempts = {
  tag: 'Message Attempt',
  description: 'One HTTP request of a delivery, and the status of each message at each endpoint.',
  schemas: { MessageAttemptOut, MessageEndpointOut, EndpointMessageOut },
  routes: [
    route('GET /app/:app/attempt/endpoint/:endpoint', view, {
      id: 'v1.message-attempt.list-by-endpoint',
      summary: 'List the attempts at an endpoint',
      description: `Newest first; the last 90 days by default. ${shorterPages}`,
      query: AttemptsAtQuery,
      answers: { 200: listOf(MessageAttemptOut) },
      handle: async ({ endpoint, query: asked }, services) => {
        const query = await fromItem(asked, (id) => behindAttempt(services, endpoint, id))
        const meets = (attempt: ListedAttempt) => meetsAttempt(attempt, query)
        return writeAttempts(
          services,
          query,
          attemptsAt(services, endpoint, query, meets, () => true),
        )
      },
    }),
    route('GET /app/:app/attempt/msg/:message', view, {
      id: 'v1.message-attempt.list-by-msg',
      summary: 'List the attempts of a message',
      ...listByMessage,
    }),
    route('GET /app/:app/endpoint/:endpoint/msg', view, {
      id: 'v1.message-attempt.list-attempted-messages',
      summary: 'List the messages tried at an endpoint, with their status',
      description: `Sorted by their latest attempt; the last 90 days by default. ${shorterPages}`,
      query: AttemptedQuery,
      answers: { 200: listOf(EndpointMessageOut) },
      handle: async ({ endpoint, query: asked }, services) => {
        const { store, clock, explainer } = services
        const query = await fromItem(asked, (id) => behindMessage(store, endpoint, id))
        const { status, expanded_statuses: expanded = false, with_content: withContent = true } = query
        const isShown = (facts: StatusFacts) => status === undefined || status === shownStatus(facts, expanded)
        const list: Walked<ListedAttempt, Tried, AttemptPlace> = {
          ...attemptsAt(services, endpoint, query, (attempt) => attempt.isLatest, isShown),
          bytesOf: ({ message }) => itemBytes + (withContent ? message.bytes : 0),
        }
        return writePage(clock, query, list, async (items) => {
          const summaries = items.map(({ message }) => message)
          const messages = await messagesAsBytes(store, summaries, withContent)
          const next = await nextOf(
            explainer,
            items.map((facts) => ({ ...facts, endpoint, message: { ...facts.message, endpoints: [endpoint.key] } })),
          )
          return items.map((facts, i) =>
            withFields(messages[i] as Buffer, toStatusOut(facts, expanded, next[i] ?? null)),
          )
        })
      },
    }),
    route('GET /app/:app/msg/:message/endpoint', view, {
      id: 'v1.message-attempt.list-attempted-destinations',
      summary: 'List the endpoints a message was accepted for',
      description: 'An endpoint that was deleted stays in the list.',
      query: PageQuery,
      answers: { 200: listOf(MessageEndpointOut) },
      handle: async ({ message, query }, { store, clock, explainer }) => {
        // There may be very many: only those on the page are looked at closely.
        const attempted = await store.attemptedEndpoints(message.key)
        const keys = [...new Set([...message.endpoints, ...attempted])].sort((a, b) => a - b)
        const list = await walk(
          clock,
          { order: 'ascending', ...query },
          {
            read: async (after: number | null, order: Order, limit: number) =>
              behind(keys, after, order).slice(0, limit),
            keep: (page) => statusesOf(store, message, page),
            keepsAll: true,
            positionOf: (key: number) => key,
            write: (key) => `key.${numbers.write(key)}`,
            parse: (text) =>
              text.startsWith('key.') ? numbers.parse(text.slice('key.'.length), 1)?.[0] : decodeKey('ep', text),
          },
        )
        const endpoints = list.data.map(({ endpoint }) => endpoint)
        const look = await explainer.look(endpoints)
        const states = await explainer.states(endpoints, look)
        const next = await nextOf(explainer, list.data, look)
        const data = list.data.map(({ endpoint, ...facts }, i) => ({
          ...toEndpointOut(endpoint, states[i] ?? 'active'),
          ...toStatusOut(facts, false, next[i] ?? null),
          deleted: facts.deleted,
        }))
        return { ...list, data }
      },
    }),
    route('GET /app/:app/msg/:message/attempt/:attempt', view, {
      id: 'v1.message-attempt.get',
      summary: 'Get an attempt',
      query: OneAttemptQuery,
      answers: { 200: MessageAttemptOut },
      handle: async ({ message, attempt }, { store }) => {
        const [endpoint] = await store.recallEndpoints([attempt.endpoint])
        return toAttemptOut(attempt, message, endpoint, true)
      },
    }),
    route('DELETE /app/:app/msg/:message/attempt/:attempt/content', admin, {
      id: 'v1.message-attempt.expunge-content',
      summary: 'Erase the answer of a receiver',
      answers: { 204: null },
      handle: ({ attempt }, { store }) => store.expungeAttempt(attempt),
    }),
    // Svix's older paths.
    route('GET /app/:app/msg/:message/attempt', view, {
      id: 'v1.message-attempt.list-by-msg-deprecated',
      summary: 'List the attempts of a message (older path)',
      ...listByMessage,
    }),
    route('GET /app/:app/msg/:message/endpoint/:endpoint/attempt', view, {
      id: 'v1.message-attempt.list-by-endpoint-deprecated',
      summary: 'List the attempts of a message at an endpoint (older path)',
      query: AttemptsAtQuery,
      answers: { 200: listOf(MessageAttemptOut) },
      handle: (call, services) => attemptsOf(services, call, call.query, call.endpoint),
    }),
  ],
} satisfies Noun

/** When each delivery that waits moves next; null for the others. */
async function nextOf(
  explainer: Explainer,
  deliveries: readonly (StatusFacts & WaitingDelivery)[],
  known?: Look,
): Promise<(EpochMs | null)[]> {
  const waits = deliveries.map((facts) => isWaiting(shownStatus(facts, true)))
  const waiting = deliveries.filter((_, i) => waits[i])
  if (waiting.length === 0) return deliveries.map(() => null)
  const next = await explainer.nextAttempts(
    waiting,
    known ?? (await explainer.look(waiting.map(({ endpoint }) => endpoint))),
  )
  return waits.map((itWaits) => (itWaits ? (next.shift() ?? null) : null))
}

/** Keys behind a position, in the asked order. */
function behind(keys: readonly number[], after: number | null, order: Order): readonly number[] {
  if (order === 'ascending') return after === null ? keys : keys.filter((key) => key > after)
  return (after === null ? keys : keys.filter((key) => key < after)).toReversed()
}
