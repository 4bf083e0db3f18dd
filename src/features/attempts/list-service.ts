import type { Clock } from '../../domain/clock.ts'
import {
  type AttemptSummary,
  isOfClass,
  type Message,
  type MessageSummary,
  meetsFilter,
} from '../../domain/delivery.ts'
import { decodeKey, keyTime } from '../../domain/ids.ts'
import { Turns } from '../../domain/turns.ts'
import { withField } from '../../json/exact.ts'
import { lookUp } from '../../operations/lookup.ts'
import { itemBytes, numbers, readTimes, type Walked, writePage } from '../../operations/page.ts'
import type { Services } from '../../operations/services.ts'
import type { AttemptBrief, AttemptKey, AttemptRange, DeliveryKey, ListedAttempt } from '../../store/messages.ts'
import type { Store } from '../../store/store.ts'
import type { Application } from '../applications/noun.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { messagesAsBytes, toMessageFilter } from '../messages/schemas.ts'
import {
  type AttemptedQuery,
  type AttemptQuery,
  attemptStatus,
  type Status,
  type StatusFacts,
  shownStatus,
  toAttemptOut,
} from './schemas.ts'

/** A message that was tried at an endpoint. */
export interface Tried extends StatusFacts {
  readonly row: ListedAttempt
  readonly message: MessageSummary
}
export type AttemptPlace = NonNullable<AttemptRange['after']>

/** The attempts of one message, all of which are at hand: there are few, unless it went to very many endpoints. */
export async function attemptsOf(
  services: Services,
  { app, message: asked }: { readonly app: Application; readonly message: Message },
  filter: AttemptQuery,
  at?: Endpoint,
) {
  const { store, clock } = services
  const message = { ...asked, bytes: asked.body.length }
  const { from, until } = readTimes({ after: '1970-01-01T00:00:00Z', ...filter }, clock.now())
  const briefs = await store.attemptBriefsOf(message.key)
  const all = briefs.sort((a, b) => a.at - b.at || keyOf(a) - keyOf(b) || (a.id < b.id ? -1 : 1))
  const { endpoint_id: ref } = filter
  const wanted = ref === undefined ? at : await lookUp('endpoint', ref, (ref) => store.findEndpoint(app.key, ref))
  const meets = (attempt: AttemptBrief) =>
    attempt.at >= from &&
    attempt.at < until &&
    (wanted === undefined || attempt.endpoint === wanted.key) &&
    meetsAttempt(attempt, filter) &&
    meetsFilter(message, toMessageFilter(filter))
  return writeAttempts(services, filter, {
    read: async (after: number | null, order, limit) => {
      if (order === 'ascending') return all.slice(after === null ? 0 : after + 1).slice(0, limit)
      return all
        .slice(0, after ?? all.length)
        .toReversed()
        .slice(0, limit)
    },
    keep: async (rows) => rows.filter(meets).map((row) => ({ row, message })),
    keepsAll: false,
    positionOf: (row) => all.indexOf(row),
    write: (row) => row.id,
    parse: (text) => {
      const place = all.findIndex((attempt) => attempt.id === text)
      return place < 0 ? undefined : place
    },
  })
}

/** An endpoint's attempts with their messages and the status of each. */
export function attemptsAt(
  { store, clock }: Pick<Services, 'store' | 'clock'>,
  endpoint: Endpoint,
  filter: AttemptQuery | AttemptedQuery,
  meets: (attempt: ListedAttempt) => boolean,
  isShown: (facts: StatusFacts) => boolean,
): Walked<ListedAttempt, Tried, AttemptPlace> {
  const times = readTimes(filter, clock.now())
  const messageFilter = toMessageFilter(filter)
  return {
    read: (after, order, limit) => {
      return store.listAttempts(endpoint.key, { ...times, after, order, limit })
    },
    keep: async (rows) => {
      const met = rows.filter(meets)
      const summaries = await store.loadSummaries([...new Set(met.map((row) => row.message))])
      const byKey = new Map(summaries.map((summary) => [summary.key, summary]))
      const ends = await endsOf(store, met)
      return met.flatMap((row, i) => {
        const message = byKey.get(row.message)
        const end = ends[i]
        if (message === undefined || end === undefined || !meetsFilter(message, messageFilter)) return []
        const facts = { message, latest: row, ...end }
        return isShown(facts) ? [{ row, ...facts }] : []
      })
    },
    keepsAll: false,
    positionOf: (row) => row,
    write: writePlace,
    parse: (text) => {
      const [at, message, n] = numbers.parse(text, 3) ?? []
      return at === undefined || message === undefined || n === undefined ? undefined : { at, message, n }
    },
  }
}

const lookedAtOnce = 250
const lookups = 8

/** The iterator behind an attempt at an endpoint, which its id names. */
export async function behindAttempt(
  { store, clock }: Pick<Services, 'store' | 'clock'>,
  endpoint: Endpoint,
  id: string,
): Promise<string | undefined> {
  const key = decodeKey('atmpt', id)
  if (key === undefined) return undefined
  // A worker makes the id by its own clock, when the attempt has ended: the attempt mostly began a little before.
  const made = keyTime(key) + 1
  for (const [order, from, until] of [
    ['descending', 0, made],
    ['ascending', made, Number.MAX_SAFE_INTEGER],
  ] as const) {
    let after: AttemptPlace | null = null
    for (let i = 0; i < lookups; i++) {
      const range: AttemptRange = { from, until, after, order, limit: lookedAtOnce }
      const rows = await store.listAttempts(endpoint.key, range)
      const row = rows.find((attempt) => attempt.id === id)
      if (row !== undefined) return writePlace(row)
      if (rows.length < lookedAtOnce) break
      after = rows.at(-1) ?? null
      await Turns.by(clock).next()
    }
  }
  return undefined
}

/** The iterator behind a message that was tried at an endpoint, which its id names. */
export async function behindMessage(store: Store, endpoint: Endpoint, id: string): Promise<string | undefined> {
  const message = decodeKey('msg', id)
  if (message === undefined) return undefined
  const [latest] = await store.latestAttempts([{ endpoint: endpoint.key, message }])
  return latest && writePlace(latest)
}

function writePlace({ at, message, n }: AttemptPlace): string {
  return numbers.write(at, message, n)
}

/** A page of attempts, with their messages if asked. */
export function writeAttempts<Row extends AttemptKey & { readonly bytes: number }, Position>(
  { store, clock }: Pick<Services, 'store' | 'clock'>,
  filter: AttemptQuery,
  list: Walked<Row, { readonly row: Row; readonly message: MessageSummary }, Position>,
) {
  const withContent = filter.with_content ?? true
  const withMessage = filter.with_msg ?? false
  const bytesOf = ({ row, message }: { row: Row; message: MessageSummary }) => {
    return itemBytes + (withContent ? row.bytes + (withMessage ? message.bytes : 0) : 0)
  }
  return writePage(clock, filter, { ...list, bytesOf }, async (items) => {
    const attempts = await store.loadAttempts(items.map(({ row }) => row))
    const endpoints = await store.recallEndpoints([...new Set(items.map(({ row }) => row.endpoint))])
    const byKey = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]))
    const summaries = items.map(({ message }) => message)
    const messages = withMessage ? await messagesAsBytes(store, summaries, withContent) : []
    return items.flatMap(({ message }, i) => {
      const attempt = attempts[i]
      if (attempt === undefined) return []
      const out = toAttemptOut(attempt, message, byKey.get(attempt.endpoint), withContent)
      const bytes = Buffer.from(JSON.stringify(out))
      return [withMessage ? withField(bytes, 'msg', messages[i] as Buffer) : bytes]
    })
  })
}

/** The status of a message at each of these endpoints, also at deleted ones. */
export async function statusesOf<M extends Pick<MessageSummary, 'key' | 'expunged'>>(
  store: Store,
  message: M,
  keys: readonly number[],
) {
  const deliveries = keys.map((endpoint) => ({ endpoint, message: message.key }))
  const [facts, endpoints] = await Promise.all([factsOf(store, deliveries), store.recallEndpoints(keys)])
  const byKey = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]))
  return keys.flatMap((row, i) => {
    const endpoint = byKey.get(row)
    const known = facts[i]
    if (endpoint === undefined || known === undefined) return []
    return [{ row, endpoint, message, deleted: endpoint.deleted === true, ...known }]
  })
}

/** Destinations of a message that are looked at together with those of other messages. */
const fewDestinations = 20
/** Destinations of one message, and of all messages with many in one answer, that statuses are made from. */
const destinationLimits = { perMessage: 1000, inAll: 2000 } as const
const deliveriesAtOnce = 500

/**
 * The statuses of messages at their endpoints, one list for each message in the order given. Undefined for a message with
 * too many destinations, and for one that is gone.
 */
export async function statusesOfEach(
  store: Store,
  clock: Clock,
  messages: readonly MessageSummary[],
): Promise<(readonly Status[] | undefined)[]> {
  const found = await store.loadDestinations(
    messages.map(({ key }) => key),
    fewDestinations,
  )
  const few = new Set(found.map(({ key }) => key))
  let room: number = destinationLimits.inAll
  for (const { key } of messages) {
    if (few.has(key) || room <= 0) continue
    const [many] = await store.loadDestinations([key], Math.min(destinationLimits.perMessage, room))
    if (many === undefined) continue
    found.push(many)
    room -= many.endpoints.length
  }
  const byKey = new Map(messages.map((message) => [message.key, message]))
  const deliveries = found.flatMap(({ key, endpoints }) => endpoints.map((endpoint) => ({ endpoint, message: key })))
  const statuses = new Map(found.map(({ key }) => [key, [] as Status[]]))
  for (let at = 0; at < deliveries.length; at += deliveriesAtOnce) {
    if (at > 0) await Turns.by(clock).next()
    const some = deliveries.slice(at, at + deliveriesAtOnce)
    const [facts, endpoints] = await Promise.all([
      factsOf(store, some),
      store.recallEndpoints([...new Set(some.map(({ endpoint }) => endpoint))]),
    ])
    const deleted = new Set(endpoints.filter((endpoint) => endpoint.deleted).map(({ key }) => key))
    for (const [i, { endpoint, message: key }] of some.entries()) {
      const message = byKey.get(key)
      const known = facts[i]
      if (message === undefined || known === undefined) continue
      statuses.get(key)?.push(shownStatus({ message, ...known, deleted: deleted.has(endpoint) }, true))
    }
  }
  return messages.map(({ key }) => statuses.get(key))
}

/** The facts that decide the status of each delivery, in the order given. */
async function factsOf(
  store: Store,
  deliveries: readonly DeliveryKey[],
): Promise<Omit<StatusFacts, 'message' | 'deleted'>[]> {
  const [latest, ends] = await Promise.all([store.latestAttempts(deliveries), endsOf(store, deliveries)])
  return ends.map((end, i) => ({ latest: latest[i], ...end }))
}

/** Whether each delivery waits to be sent once more, is a dead letter, or was replaced by another. */
async function endsOf(store: Store, deliveries: readonly DeliveryKey[]) {
  const [replayed, letters, coalesced] = await Promise.all([
    store.findReplaying(deliveries),
    store.deadAmong(deliveries),
    store.findCoalesced(deliveries),
  ])
  const [replaying, dead] = [new Set(replayed.map(pairOf)), new Set(letters.map(pairOf))]
  return deliveries.map((delivery, i) => {
    const pair = pairOf(delivery)
    return { replaying: replaying.has(pair), dead: dead.has(pair), coalesced: coalesced[i] }
  })
}

function pairOf({ endpoint, message }: DeliveryKey): string {
  return `${endpoint}.${message}`
}

function keyOf(attempt: AttemptBrief): number {
  return decodeKey('atmpt', attempt.id) ?? 0
}

export function meetsAttempt(
  attempt: Pick<AttemptSummary, 'code' | 'status'>,
  { status, status_code_class: statusClass }: AttemptQuery,
): boolean {
  if (status !== undefined && status !== attemptStatus(attempt)) return false
  return statusClass === undefined || isOfClass(attempt, statusClass)
}
