import type { DeadLetter, DeadLetterSummary, Message } from '../../domain/delivery.ts'
import { type Identity, keyTime } from '../../domain/ids.ts'
import type { DeliveryKey } from '../../store/messages.ts'
import type { Plan, Planned } from '../../store/plan.ts'
import type { Variant } from '../../store/publishing.ts'
import { among, bytes, forUpdate, probe, rowsOf } from '../../store/sql/dialect.ts'
import {
  deadColumns,
  deadSummaryColumns,
  letterColumns,
  messageColumns,
  messageShape,
} from '../../store/sql/message-rows.ts'
import { countMessages, inPlace } from '../../store/sql/messages.ts'
import { deliveryFields, findPlaces, keysOf } from '../../store/sql/pending-rows.ts'
import type { Methods, Port, Transaction, Work } from '../../store/sql/port.ts'
import {
  beyond,
  direction,
  either,
  fragment,
  inBothOrders,
  listStart,
  parameters,
  type Statement,
  type StatementPart,
  snakeCase,
  statement,
  toJson,
  type Values,
  valuesOf,
} from '../../store/sql/statement.ts'
import { unindexedSubject } from '../erasure/store.ts'
import { type Brought, type BroughtLetter, type CountedList, type DeadLetters, placesOf } from './store.ts'

/** Postgres's dead_died and dead_endpoint are over sums: the planner then takes them for these lists and nothing else. */
export const indexed = (column: string) => either(column, `${column} + 0`)

/**
 * The list of some dead letters by the instant they died, and its count. Only rows of one instant are sorted. The count is in
 * the order of the list's index, which keeps the planner to it.
 */
function listOf(
  names: readonly [list: string, count: string],
  owner: StatementPart,
  diedAt: StatementPart,
  rest: string[],
  index: StatementPart = '',
) {
  const died = fragment`${owner} ${diedAt} >= :from and ${diedAt} < :until`
  const restOrder = {
    of: { ascending: rest.join(', '), descending: rest.map((column) => `${column} desc`).join(', ') },
  }
  return {
    list: inBothOrders<DeadLetterSummary>(names[0])`
      select ${deadSummaryColumns} from dead
       where ${died} and ${diedAt} ${beyond}= :died_at
         and (died_at, ${rest.join(', ')}) ${beyond} (:died_at, ${rest.map((column) => `:after_${column}`).join(', ')})
       order by ${diedAt} ${direction}, ${restOrder} limit :limit`,
    count: statement<{ count: number }>(names[1])`
      select count(*) as count from (
        select 1 from dead ${index} where ${died} order by ${diedAt} limit :limit) as listed`,
  }
}
const byPlace = ['endpoint', 'message']
// They lean on dead_died, dead_app and dead_endpoint.
const all = listOf(['all-dead', 'count-dead'], '', indexed('died_at'), byPlace)
const ofApp = listOf(['dead-of-app', 'count-dead-of-app'], 'app = :app and', 'died_at', byPlace)
const ofEndpoint = listOf(
  ['dead-of-endpoint', 'count-dead-of-endpoint'],
  fragment`${indexed('endpoint')} = :endpoint and`,
  'died_at',
  ['message'],
  either('indexed by dead_endpoint', ''),
)
// Ranges of dead's primary key.
const byMessage = 'endpoint = :endpoint and message >= :from and message < :until'
const selectByMessage = inBothOrders<DeadLetterSummary>('dead-by-message')`
  select ${deadSummaryColumns} from dead where ${byMessage} and message ${beyond} :after
   order by message ${direction} limit :limit`
const countByMessage = statement<{ count: number }>('count-dead-by-message')`
  select count(*) as count from (select 1 from dead where ${byMessage} order by message limit :limit) as listed`
const selectDead = statement<DeadLetter>('dead')`
  select ${deadColumns} from dead where endpoint = :endpoint and message = :message`

const isWanted = 'dead.endpoint = wanted.endpoint and dead.message = wanted.message'
const selectAmong = statement<DeliveryKey>('dead-among')`
  select wanted.endpoint, wanted.message from ${rowsOf(':deliveries', 'wanted', deliveryFields)}
  ${probe('dead', isWanted)}`
const selectSummaries = statement<DeadLetterSummary>('dead-summaries')`
  select ${deadSummaryColumns} from ${rowsOf(':deliveries', 'wanted', deliveryFields)}
  ${probe('dead', isWanted)}`
const selectSome = statement<DeadLetter & { readonly place: number }>('some-dead')`
  select wanted.place, ${deadColumns} from ${rowsOf(':deliveries', 'wanted', deliveryFields)}
  ${probe('dead', isWanted)}`

const selectContents = statement<Message & { readonly plan: Plan | null }>('contents', {
  json: [...(messageShape.json ?? []), 'plan'],
})`
  select ${messageColumns}, plan from message where ${among('key', ':keys')}`
const selectVariants = statement<Variant & { readonly place: number }>('some-variants')`
  select wanted.place, variant.body, variant.signature
    from ${rowsOf(':variants', 'wanted', { message: 'bigint', n: 'integer' })}
    ${probe('variant', 'variant.message = wanted.message and variant.n = wanted.n')}`

interface MessageHead {
  readonly id: string
  readonly app: number
  readonly endpoints: number[]
  readonly plan: Plan | null
}

const selectPlace = statement<MessageHead>('message-place', { json: ['endpoints', 'plan'] })`
  select id, app, endpoints, plan from message where key = :key ${forUpdate}`
const imported = {
  ...snakeCase('key', 'id', 'app', 'eventType', 'eventId', 'channels', 'contentType', 'body', 'tags', 'headers'),
  ...snakeCase('deliverAt', 'expiresAt', 'orderingKey'),
}
const insertMessage = statement('import-message')`
  insert into message (${Object.values(imported).join(', ')}, endpoints)
  values (${parameters(Object.values(imported))}, :endpoints)
  on conflict do nothing returning key`
// A message that has the event id by now keeps it.
const insertEventId = statement('import-event-id')`
  insert into event_id (app, event_id, message) values (:app, :event_id, :message) on conflict do nothing`
// The body of the message is read to find out whom it names. Pointers that are set later have such messages read anyway.
const insertUnindexed = statement('import-subject')`
  insert into subject (app, hash, message)
  select key, '${unindexedSubject}', cast(:message as bigint) from application
   where key = :app and coalesce(settings, '{}') ->> 'subjectPointers' is not null
  on conflict do nothing`
const widenMessage = statement('widen-message')`
  update message set endpoints = :endpoints, plan = :plan where key = :key`
const insertVariant = statement<{ n: number }>('import-variant')`
  insert into variant (message, n, body, signature)
  select cast(:message as bigint), coalesce(max(n) + 1, 0), ${bytes(':body')}, cast(:signature as text)
    from variant where message = :message
  returning n`
const selectLater = statement('later-attempt')`
  select 1 from attempt where message = :message and endpoint = :endpoint and at > :at limit 1`
const insertDead = statement('import-dead')`
  insert into dead (${letterColumns}) values (${parameters(letterColumns.split(', '))})
  on conflict do nothing returning message`

/** Dead letters: listing, loading, exporting and importing them. */
export function deadLetters(port: Port): Methods<Omit<DeadLetters, 'replay' | 'findReplaying'>> {
  return {
    *listDead(app, { endpoint, from, until, after, order, limit }) {
      const start = listStart(order)
      const { diedAt: died_at, ...place } = after ?? { diedAt: start, endpoint: start, message: start }
      const values = { from, until, died_at, after_endpoint: place.endpoint, after_message: place.message, limit }
      if (endpoint !== null) return yield* port.all(ofEndpoint.list[order], { ...values, endpoint })
      if (app !== null) return yield* port.all(ofApp.list[order], { ...values, app })
      return yield* port.all(all.list[order], values)
    },

    *listDeadOf(endpoint, { from, until, after, order, limit }) {
      const values = { endpoint, from, until, after: after ?? listStart(order), limit }
      return yield* port.all(selectByMessage[order], values)
    },

    *countListed(list, limit) {
      const [count, of] = countedBy(list)
      const { from, until } = list
      return (yield* port.first(count, { ...of, from, until, limit }))?.count ?? 0
    },

    findDead: (endpoint, message) => port.first(selectDead, { endpoint, message }),

    *deadAmong(deliveries) {
      return deliveries.length === 0 ? [] : yield* port.all(selectAmong, { deliveries: keysOf(deliveries) })
    },

    *summariseDead(deliveries) {
      return deliveries.length === 0 ? [] : yield* port.all(selectSummaries, { deliveries: keysOf(deliveries) })
    },

    *loadDead(deliveries) {
      if (deliveries.length === 0) return []
      return inPlace(deliveries, yield* port.all(selectSome, { deliveries: keysOf(deliveries) }))
    },

    *loadContents(deliveries) {
      if (deliveries.length === 0) return []
      const keys = [...new Set(deliveries.map(({ message }) => message))]
      const found = new Map((yield* port.all(selectContents, { keys })).map((row) => [row.key, row]))
      const planned = deliveries.map(({ endpoint, message }) => found.get(message)?.plan?.[endpoint])
      const wanted = deliveries.flatMap(({ message }, i) => {
        const n = planned[i]?.variant
        return n === undefined ? [] : [{ i, message, n }]
      })
      const rows = wanted.length === 0 ? [] : yield* port.all(selectVariants, { variants: wanted })
      const variants = new Map(rows.map(({ place, body, signature }) => [wanted[place - 1]?.i, { body, signature }]))
      return deliveries.map(({ message }, i) => {
        const row = found.get(message)
        if (row === undefined) return undefined
        const { plan: _plan, ...whole } = row
        return { message: whole, orderKey: planned[i]?.orderKey ?? null, variant: variants.get(i) ?? null }
      })
    },

    *importDead(app, letters) {
      return yield* port.transaction(function* (sql) {
        const brought: Brought[] = []
        for (const letter of letters) brought.push(yield* bring(sql, app, letter))
        return brought
      })
    },
  }
}

/** The statement that counts a list, and the values that name its owner. */
function countedBy(list: CountedList): [Statement<{ count: number }>, Values] {
  if (list.of === 'messages') return [countMessages, { app: list.app }]
  if (list.of === 'dead by message') return [countByMessage, { endpoint: list.endpoint }]
  if (list.endpoint !== null) return [ofEndpoint.count, { endpoint: list.endpoint }]
  return list.app === null ? [all.count, {}] : [ofApp.count, { app: list.app }]
}

function* bring(sql: Transaction, app: number, letter: BroughtLetter): Work<Brought> {
  for (const place of placesOf(letter.message)) {
    const { key } = place
    let found = yield* sql.first(selectPlace, { key })
    if (found === undefined) {
      if (letter.body === null) return 'missing'
      // Another import may add it at this very moment, and is waited for here.
      if (!(yield* addMessage(sql, app, place, letter, letter.body))) found = yield* sql.first(selectPlace, { key })
    }
    if (found !== undefined) {
      if (found.id !== place.id || found.app !== app) continue
      if (yield* hasGoneOn(sql, key, letter)) return 'unchanged'
      yield* addEndpoint(sql, key, found, letter)
    }
    const { endpoint, reason, attempts, diedAt, status, code, error, response } = letter
    const ended = { reason, attempts, died_at: diedAt, since: keyTime(key), status, code, error, response }
    const added = yield* sql.first(insertDead, { endpoint, message: key, app, ...ended })
    return added === undefined ? 'unchanged' : 'imported'
  }
  return 'missing'
}

/** Answers whether the message was added: its key was free. */
function* addMessage(
  sql: Transaction,
  app: number,
  { key, id }: Identity,
  letter: BroughtLetter,
  body: Uint8Array,
): Work<boolean> {
  const { message, endpoint } = letter
  const values = valuesOf({ ...message, key, id, app, body }, imported)
  const added = yield* sql.any(insertMessage, { ...values, endpoints: [endpoint] })
  if (!added) return false
  const planned = yield* planFor(sql, key, letter)
  if (planned !== null) {
    yield* sql.run(widenMessage, { key, endpoints: [endpoint], plan: toJson({ [endpoint]: planned }) })
  }
  if (message.eventId !== null) yield* sql.run(insertEventId, { app, event_id: message.eventId, message: key })
  yield* sql.run(insertUnindexed, { app, message: key })
  return true
}

/** The plan of a delivery that comes with an ordering key or a variant; null when it is plain. */
function* planFor(sql: Transaction, key: number, { orderKey, variant }: BroughtLetter): Work<Planned | null> {
  if (orderKey === null && variant === null) return null
  const row =
    variant === null
      ? undefined
      : yield* sql.first(insertVariant, { message: key, body: variant.body, signature: variant.signature })
  return { ...(orderKey === null ? {} : { orderKey }), ...(row === undefined ? {} : { variant: row.n }) }
}

/** A message that exists here may have been accepted elsewhere for an endpoint that it was not accepted for here. */
function* addEndpoint(sql: Transaction, key: number, found: MessageHead, letter: BroughtLetter): Work<void> {
  if (found.endpoints.includes(letter.endpoint)) return
  const planned = yield* planFor(sql, key, letter)
  const plan = planned === null ? found.plan : { ...found.plan, [letter.endpoint]: planned }
  yield* sql.run(widenMessage, { key, endpoints: [...found.endpoints, letter.endpoint], plan: toJson(plan) })
}

/** Whether the delivery waits, or was tried again since it died. */
function* hasGoneOn(sql: Transaction, key: number, { endpoint, diedAt }: BroughtLetter): Work<boolean> {
  if (yield* sql.any(selectLater, { message: key, endpoint, at: diedAt })) return true
  return (yield* findPlaces(sql, [{ endpoint, message: key }])).length > 0
}
