import type { EpochMs } from '../../domain/clock.ts'
import type { Identity } from '../../domain/ids.ts'
import { delayOf, isPlain, keptPlan, queuedInOrder, wideOnes } from '../plan.ts'
import {
  allAccepted,
  type Intake,
  type Once,
  type Publication,
  type Published,
  type PublishedTogether,
  payloadEndOf,
  Refused,
  repeatedTogether,
  writeIdentities,
} from '../publishing.ts'
import { toJson } from '../sql/statement.ts'
import type { Connection, MaybeSynchronous } from './connection.ts'
import { repeats } from './idempotency.ts'
import { fanOut, nothingPlanned, plannedQueue, variantKeeper } from './planned.ts'
import { type Queued, queueing } from './queueing.ts'
import { StoreHashes, type TakenHashes } from './taken-hashes.ts'

const selectVersion = 'select version from application where key = ? and deleted_at is null'
const insertEventId = 'insert into event_id (app, event_id, message) values (?, ?, ?)'
const insertMessage = `
  insert into message
    (key, id, app, event_type, event_id, channels, content_type, endpoints, body, tags, headers, deliver_at, expires_at,
     ordering_key, plan, trace, arrived_headers)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (key) do nothing`
const insertPayloadEnd = 'insert into payload_end (message, app, at, once_delivered, over_at) values (?, ?, ?, ?, ?)'
const insertSubject = 'insert into subject (app, hash, message) values (?, ?, ?)'
const deleteInboxRow = 'delete from sluice_inbox where id = ? and refused_at is null'
const insertFanOut = 'insert into fan_out (message, since, next) values (?, ?, 0)'

export type Taking = Omit<Intake, 'subscriptions' | 'surveyWaiting'>

/** Stores messages. Other callers run while a publish waits for the disk. */
export interface SqliteIntake extends MaybeSynchronous<Taking> {
  /** Within a caller's own transaction. */
  publishWithin(publication: Publication): Published
  /** `along` is run in the transaction that stores these messages; an error that it throws undoes them. */
  publishAlong(
    publications: readonly Publication[],
    along: (messages: readonly Identity[], now: EpochMs) => void,
  ): PublishedTogether
}

/** Stores messages and queues their deliveries. */
export function intake(connection: Connection, taken: TakenHashes = new StoreHashes(connection)): SqliteIntake {
  const version = connection.prepare<{ version: number }>(selectVersion)
  const addEventId = connection.prepare(insertEventId)
  const addMessage = connection.prepare(insertMessage)
  const addFanOut = connection.prepare(insertFanOut)
  const addPayloadEnd = connection.prepare(insertPayloadEnd)
  const addSubject = connection.prepare(insertSubject)
  const takeInboxRow = connection.prepare(deleteInboxRow)
  const addVariants = variantKeeper(connection)
  const enqueuePlanned = plannedQueue(connection)
  const repeatOf = repeats(connection, taken)
  const queues = queueing(connection)
  const { inTransaction, inTransactionApart, enqueue } = queues

  function store(publication: Publication, wide: boolean, queued: Queued): Published {
    const { app, eventType, eventId, contentType, endpoints, body, once = [], subjects = [] } = publication
    const { now } = queued
    const { inbox = null } = publication
    const repeated = repeatOf(publication, now)
    if (repeated && repeated.state !== 'repeated') return repeated
    if (inbox !== null && takeInboxRow.run(inbox).changes === 0) return { state: 'mismatch' }
    if (repeated) return repeated
    const channels = toJson(publication.channels)
    const list = JSON.stringify(endpoints)
    const tags = toJson(publication.tags ?? null)
    const headers = toJson(publication.headers ?? null)
    const arrived = toJson(publication.arrivedHeaders ?? null)
    const delayMs = delayOf(publication)
    const since = now + delayMs
    const deliverAt = delayMs > 0 ? since : null
    const { expiresInMs = null, orderingKey = null, trace = null, special, variants } = publication
    const expiresAt = expiresInMs === null ? null : now + Math.floor(expiresInMs)
    const kept = keptPlan(special, wide)
    const identity = connection.insertNew('msg', now, ({ key, id }) => {
      const head = [key, id, app, eventType, eventId, channels, contentType] as const
      const times = [deliverAt, expiresAt] as const
      return addMessage.run(...head, list, body, tags, headers, ...times, orderingKey, kept, trace, arrived).changes
    })
    if (eventId !== null) addEventId.run(app, eventId, identity.key)
    for (const each of once) taken.take(each, identity.key, null, now)
    if (variants !== undefined) addVariants(identity.key, variants)
    for (const hash of subjects) addSubject.run(app, hash, identity.key)
    const end = payloadEndOf(publication, since)
    if (end !== undefined) addPayloadEnd.run(identity.key, app, end.at, Number(end.onceDelivered), end.overAt)
    if (wide) {
      addFanOut.run(identity.key, since)
      queued.wide = true
    }
    if (isPlain(publication)) {
      if (!wide) enqueue(queued, endpoints, identity.key, since)
      if (!wide && delayMs === 0) queued.fresh.push({ publication, identity, dueAt: queued.freshAt })
      else queued.mixed = true
    } else {
      queued.mixed = true
      const those = wide ? queuedInOrder(publication) : endpoints
      const planned = those.length === 0 ? nothingPlanned : new Map(special?.map((each) => [each.endpoint, each]))
      const merged = enqueuePlanned(queued, those, { key: identity.key, app, since, expiresAt, planned, late: false })
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

  function storeTogether(publications: readonly Publication[], once: Once | null, queued: Queued): PublishedTogether {
    const found = once === null ? undefined : taken.find(once, queued.now)
    if (once !== null && found !== undefined) return repeatedTogether(found, once)
    const messages = allAccepted(storeAll(publications, queued))
    if (once) taken.take(once, messages[0]?.key ?? null, writeIdentities(messages), queued.now)
    return { state: 'accepted', messages }
  }

  return {
    async publish(publications) {
      if (publications.length === 0) return []
      taken.tidy()
      return inTransactionApart((queued) => storeAll(publications, queued))
    },

    async publishTogether(publications, once) {
      try {
        taken.tidy()
        return await inTransactionApart((queued) => storeTogether(publications, once, queued))
      } catch (error) {
        return answerIfRefused(error)
      }
    },

    publishWithin(publication) {
      return inTransaction((queued) => storeAll([publication], queued))[0] as Published
    },

    publishAlong(publications, along) {
      try {
        return inTransaction((queued) => {
          const answer = storeTogether(publications, null, queued)
          if (answer.state === 'accepted') along(answer.messages, queued.now)
          return answer
        })
      } catch (error) {
        return answerIfRefused(error)
      }
    },

    expand: fanOut(connection, queues, enqueuePlanned),
  }
}

function answerIfRefused(error: unknown): PublishedTogether {
  if (error instanceof Refused) return error.answer
  throw error
}
