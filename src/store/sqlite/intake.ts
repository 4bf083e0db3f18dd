import type { EpochMs } from '../../domain/clock.ts'
import { fresh, timed } from '../../domain/delivery.ts'
import type { Intake, Publication, Published, Subscriptions } from '../store.ts'
import type { Connection, Synchronous } from './connection.ts'
import { laneWakes } from './lane-wakes.ts'
import { fromJson, toJson } from './rows.ts'

const selectVersion = 'select version from application where key = ? and deleted_at is null'
const selectSubscriptions =
  'select key, event_types, channels from endpoint where app = ? and deleted_at is null order by key'
const selectByEventId = `
  select message.id from event_id join message on message.key = event_id.message
  where event_id.app = ? and event_id.event_id = ?`
const insertEventId = 'insert into event_id (app, event_id, message) values (?, ?, ?)'
const insertMessage = `
  insert into message (key, id, app, event_type, event_id, channels, content_type, endpoints, body)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (key) do nothing`
const insertPending = `
  insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts) values (?, ?, ?, ?, ?, 0, 0)`

/** Takes messages in. */
export function intake(connection: Connection): Synchronous<Intake> {
  const version = connection.prepare<{ version: number }>(selectVersion)
  const subscribed = connection.prepare<{ key: number; event_types: string | null; channels: string | null }>(
    selectSubscriptions,
  )
  const byEventId = connection.prepare<{ id: string }>(selectByEventId)
  const addEventId = connection.prepare(insertEventId)
  const addMessage = connection.prepare(insertMessage)
  const addPending = connection.prepare(insertPending)
  const wakes = laneWakes(connection)
  let lastFreshAt: EpochMs = 0

  /** Stores one publication and notes in `due` when each of its endpoints has something to do. */
  function store(publication: Publication, now: EpochMs, due: Map<number, EpochMs>): Published {
    const { app, eventType, eventId, contentType, endpoints, body } = publication
    if (eventId !== null) {
      const taken = byEventId.get(app, eventId)
      if (taken) return { state: 'conflict', id: taken.id }
    }
    const channels = toJson(publication.channels)
    const list = JSON.stringify(endpoints)
    const identity = connection.insertNew('msg', now, ({ key, id }) => {
      return addMessage.run(key, id, app, eventType, eventId, channels, contentType, list, body).changes
    })
    if (eventId !== null) addEventId.run(app, eventId, identity.key)

    const delayMs = Math.ceil(publication.delayMs)
    const since = now + delayMs
    const rowClass = delayMs > 0 ? timed : fresh
    const rowDueAt = delayMs > 0 ? since : lastFreshAt
    for (const endpoint of endpoints) {
      addPending.run(endpoint, rowClass, rowDueAt, identity.key, since)
      const earlier = due.get(endpoint)
      if (earlier === undefined || earlier > since) due.set(endpoint, since)
    }
    return { state: 'accepted', ...identity }
  }

  return {
    // The version is read first: an endpoint changed in between makes the version too old, which publish refuses.
    subscriptions(app): Subscriptions | undefined {
      const found = version.get(app)
      if (found === undefined) return undefined
      const list = subscribed.all(app).map((row) => ({
        endpoint: row.key,
        eventTypes: fromJson<string[]>(row.event_types),
        channels: fromJson<string[]>(row.channels),
      }))
      return { version: found.version, list }
    },

    publish(publications): Published[] {
      if (publications.length === 0) return []
      const due = new Map<number, EpochMs>()
      let woke = false
      const answers = connection.transaction(() => {
        const now = connection.now()
        // Fresh rows are served in the order of their due instants, which is why those never run backwards: a row that
        // a clock set back puts behind a reader's cursor would wait until that reader has drained the lane.
        lastFreshAt = Math.max(lastFreshAt, now)
        const versions = new Map<number, number | undefined>()
        const stored = publications.map((publication): Published => {
          const { app } = publication
          if (!versions.has(app)) versions.set(app, version.get(app)?.version)
          if (versions.get(app) !== publication.version) return { state: 'stale' }
          return store(publication, now, due)
        })
        for (const [endpoint, at] of due) if (wakes.wake(endpoint, at)) woke = true
        return stored
      })
      if (due.size > 0) connection.watcher?.rows([...due.keys()], onlyFresh(publications) ? fresh : undefined)
      if (woke) connection.watcher?.lanes()
      return answers
    },
  }
}

function onlyFresh(publications: readonly Publication[]): boolean {
  return publications.every((publication) => publication.delayMs <= 0)
}
