import type { EpochMs } from '../../domain/clock.ts'
import { fresh, timed } from '../../domain/delivery.ts'
import { wideOnes } from '../fan-out.ts'
import type { Once } from '../idempotency.ts'
import type { Intake, Publication, Published, PublishedTogether, Subscriptions } from '../intake.ts'
import { isPlain, keptPlan, planOf, queuedInOrder } from '../plan.ts'
import { openRegion } from '../regions.ts'
import { toJson } from '../rows.ts'
import type { Connection, Identity, Synchronous } from './connection.ts'
import { fanOut } from './fan-out.ts'
import { takenOnce } from './idempotency.ts'
import { laneWakes } from './lane-wakes.ts'
import { plannedQueue, variantKeeper } from './planned.ts'
import { type SubscriptionRow, toSubscription } from './rows.ts'
import { waitingCounter } from './waiting.ts'

const selectVersion = 'select version, dedupe_s from application where key = ? and deleted_at is null'
const selectSubscriptions = `
  select key, id, event_types, channels, disabled, flow, case when flow is not null then secrets end as secrets
  from endpoint where app = ? and deleted_at is null order by key`
const selectRegions = 'select name, secret from region where app = ?'
const selectByEventId = `
  select message.id from event_id join message on message.key = event_id.message
  where event_id.app = ? and event_id.event_id = ?`
const selectId = 'select id from message where key = ?'
const insertEventId = 'insert into event_id (app, event_id, message) values (?, ?, ?)'
const insertMessage = `
  insert into message
    (key, id, app, event_type, event_id, channels, content_type, endpoints, body, tags, headers, deliver_at, expires_at,
     ordering_key, plan)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (key) do nothing`
const insertPending = `
  insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts) values (?, ?, ?, ?, ?, 0, 0)`
const insertPayloadEnd = 'insert into payload_end (message, app, at) values (?, ?, ?)'
const insertFanOut = 'insert into fan_out (message, since, next) values (?, ?, 0)'

const noRegions: ReadonlyMap<string, string | null> = new Map()

/** What is written in one transaction, for those who are to be told after it. */
export interface Queued {
  readonly now: EpochMs
  /** When what is due at once is due. */
  readonly freshAt: EpochMs
  /** When each endpoint has something to do. */
  readonly due: Map<number, EpochMs>
  onlyFresh: boolean
  wide: boolean
}

/** Adds a message to the queues of endpoints, inside the caller's transaction. */
export type Enqueue = (queued: Queued, endpoints: readonly number[], message: number, since: EpochMs) => void

/** Ends a transaction of several messages because one of them was refused. */
class Refused extends Error {
  readonly answer: PublishedTogether

  constructor(answer: PublishedTogether) {
    super('refused')
    this.answer = answer
  }
}

/** Takes messages in, if need be along with something else. */
export interface IntakeAlong extends Synchronous<Intake> {
  /** `along` is run in the transaction that stored these messages; what it throws undoes them. */
  publishTogether(
    publications: readonly Publication[],
    once: Once | null,
    along?: (messages: readonly Identity[], now: EpochMs) => void,
  ): PublishedTogether
}

/** Takes messages in. */
export function intake(connection: Connection): IntakeAlong {
  const version = connection.prepare<{ version: number; dedupe_s: number | null }>(selectVersion)
  const subscribed = connection.prepare<SubscriptionRow>(selectSubscriptions)
  const regions = connection.prepare<{ name: string; secret: string }>(selectRegions)
  const byEventId = connection.prepare<{ id: string }>(selectByEventId)
  const idOf = connection.prepare<{ id: string }>(selectId)
  const addEventId = connection.prepare(insertEventId)
  const addMessage = connection.prepare(insertMessage)
  const addPending = connection.prepare(insertPending)
  const addFanOut = connection.prepare(insertFanOut)
  const addPayloadEnd = connection.prepare(insertPayloadEnd)
  const addVariants = variantKeeper(connection)
  const enqueuePlanned = plannedQueue(connection)
  const taken = takenOnce(connection)
  const wakes = laneWakes(connection)
  let lastFreshAt: EpochMs = 0

  const enqueue: Enqueue = (queued, endpoints, message, since) => {
    const { now, due, freshAt } = queued
    const delayed = since > now
    if (delayed) queued.onlyFresh = false
    const rowClass = delayed ? timed : fresh
    const rowDueAt = delayed ? since : freshAt
    for (const endpoint of endpoints) {
      addPending.run(endpoint, rowClass, rowDueAt, message, since)
      const earlier = due.get(endpoint)
      if (earlier === undefined || earlier > since) due.set(endpoint, since)
    }
  }

  function regionSecrets(app: number): ReadonlyMap<string, string | null> {
    const { vault, log } = connection.context
    return new Map(regions.all(app).map(({ name, secret }) => [name, openRegion(vault, secret, { app, name }, log)]))
  }

  /** The message that stands for this one already, if there is one. */
  function repeatOf(once: readonly Once[], now: EpochMs): Published | undefined {
    for (const [i, each] of once.entries()) {
      const found = taken.find(each, now)
      if (found === undefined) continue
      if (found.fingerprint !== each.fingerprint || found.message === null) return { state: 'mismatch' }
      const key = found.message
      const row = idOf.get(key)
      if (row === undefined) continue
      // Whoever repeats this request later is to be answered the same, also when what it met here has expired.
      for (const earlier of once.slice(0, i)) taken.take(earlier, key, null, now)
      return { state: 'repeated', key, id: row.id }
    }
    return undefined
  }

  function store(publication: Publication, wide: boolean, queued: Queued): Published {
    const { app, eventType, eventId, contentType, endpoints, body, once = [] } = publication
    const { now } = queued
    const repeated = once.length === 0 ? undefined : repeatOf(once, now)
    if (repeated) return repeated
    if (eventId !== null) {
      const holder = byEventId.get(app, eventId)
      if (holder) return { state: 'conflict', id: holder.id }
    }
    const channels = toJson(publication.channels)
    const list = JSON.stringify(endpoints)
    const tags = toJson(publication.tags ?? null)
    const headers = toJson(publication.headers ?? null)
    const delayMs = Math.max(0, Math.ceil(publication.delayMs))
    const since = now + delayMs
    const deliverAt = delayMs > 0 ? since : null
    const { expiresInMs = null, orderingKey = null, special, variants, payloadForMs } = publication
    const expiresAt = expiresInMs === null ? null : now + Math.floor(expiresInMs)
    const plan = planOf(special)
    const kept = special === undefined ? null : toJson(keptPlan(special, wide))
    const identity = connection.insertNew('msg', now, ({ key, id }) => {
      const head = [key, id, app, eventType, eventId, channels, contentType] as const
      return addMessage.run(...head, list, body, tags, headers, deliverAt, expiresAt, orderingKey, kept).changes
    })
    if (eventId !== null) addEventId.run(app, eventId, identity.key)
    for (const each of once) taken.take(each, identity.key, null, now)
    if (variants !== undefined) addVariants(identity.key, variants)
    if (payloadForMs != null) addPayloadEnd.run(identity.key, app, since + Math.ceil(payloadForMs))
    if (wide) {
      addFanOut.run(identity.key, since)
      queued.wide = true
    }
    if (isPlain(publication)) {
      if (!wide) enqueue(queued, endpoints, identity.key, since)
    } else {
      const planned = { key: identity.key, app, since, expiresAt, plan, late: false }
      const merged = enqueuePlanned(queued, wide ? queuedInOrder(publication) : endpoints, planned)
      if (merged.length > 0) return { state: 'accepted', ...identity, merged }
    }
    return { state: 'accepted', ...identity }
  }

  function storeAll(publications: readonly Publication[], queued: Queued): Published[] {
    const versions = new Map<number, number | undefined>()
    const wide = wideOnes(publications)
    return publications.map((publication, i): Published => {
      const { app } = publication
      if (!versions.has(app)) versions.set(app, version.get(app)?.version)
      if (versions.get(app) !== publication.version) return { state: 'stale' }
      return store(publication, wide[i] === true, queued)
    })
  }

  /** Runs `work` in a transaction that ends by waking the lanes it queued for, and then tells who must know. */
  function queueing<T>(work: (queued: Queued) => T): T {
    let queued: Queued | undefined
    let woke = false
    const result = connection.transaction(() => {
      const now = connection.now()
      // Fresh rows are served in the order of their due instants, which is why those never run backwards: a row that
      // a clock set back puts behind a reader's cursor would wait until that reader has drained the lane.
      lastFreshAt = Math.max(lastFreshAt, now)
      queued = { now, freshAt: lastFreshAt, due: new Map(), onlyFresh: true, wide: false }
      const answer = work(queued)
      for (const [endpoint, at] of queued.due) if (wakes.wake(endpoint, at)) woke = true
      return answer
    })
    const { due, onlyFresh, wide } = queued as unknown as Queued
    if (due.size > 0) connection.watcher?.rows([...due.keys()], onlyFresh ? fresh : undefined)
    if (woke) connection.watcher?.lanes()
    if (wide) connection.watcher?.fanOuts?.()
    return result
  }

  return {
    // The version is read first: an endpoint changed in between makes the version too old, which publish refuses.
    subscriptions(app): Subscriptions | undefined {
      const found = version.get(app)
      if (found === undefined) return undefined
      const rows = subscribed.all(app)
      const secrets = rows.some(({ flow }) => flow?.includes('"region"')) ? regionSecrets(app) : noRegions
      const list = rows.map((row) => toSubscription(row, app, connection.context, secrets))
      return { version: found.version, list, dedupeSeconds: found.dedupe_s }
    },

    publish(publications): Published[] {
      if (publications.length === 0) return []
      return queueing((queued) => storeAll(publications, queued))
    },

    publishTogether(publications, once, along): PublishedTogether {
      try {
        return queueing((queued): PublishedTogether => {
          const found = once === null ? undefined : taken.find(once, queued.now)
          if (found !== undefined) {
            if (found.fingerprint !== once?.fingerprint || found.answer === null) return { state: 'mismatch' }
            return { state: 'repeated', messages: readIdentities(found.answer) }
          }
          const messages = storeAll(publications, queued).map((answer, index): Identity => {
            if (answer.state === 'conflict') throw new Refused({ ...answer, index })
            if (answer.state === 'stale' || answer.state === 'mismatch') throw new Refused(answer)
            return { key: answer.key, id: answer.id }
          })
          if (once) taken.take(once, messages[0]?.key ?? null, writeIdentities(messages), queued.now)
          along?.(messages, queued.now)
          return { state: 'accepted', messages }
        })
      } catch (error) {
        if (error instanceof Refused) return error.answer
        throw error
      }
    },

    expand: fanOut(connection, queueing, enqueue, enqueuePlanned),
    surveyWaiting: waitingCounter(connection),
  }
}

function writeIdentities(messages: readonly Identity[]): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(messages.map(({ key, id }) => [key, id])))
}

function readIdentities(bytes: Uint8Array): Identity[] {
  const pairs: [number, string][] = JSON.parse(new TextDecoder().decode(bytes))
  return pairs.map(([key, id]) => ({ key, id }))
}
