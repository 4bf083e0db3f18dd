import { fresh } from '../../domain/delivery.ts'
import { encodeId } from '../../domain/ids.ts'
import type { Intake, Publication, Published } from '../store.ts'
import { integers, packed, texts } from './arrays.ts'
import type { Database, Identity } from './database.ts'
import { toJson } from './rows.ts'
import { withClock } from './server-time.ts'
import type { Statement } from './sessions.ts'

const selectSubscriptions: Statement = {
  name: 'subscriptions',
  text: `
    select a.version, e.key, e.event_types, e.channels
      from application a left join endpoint e on e.app = a.key and e.deleted_at is null
     where a.key = $1 and a.deleted_at is null
     order by e.key`,
}

/**
 * Everything of a group in one statement, and so in one transaction of its own and one round trip. A publication whose
 * version is not the application's any more falls out in `current`; one whose event id is taken, by an earlier message
 * or by an earlier one of this group, falls out in `accepted`. Event ids are reserved in one order by everyone, so that
 * no two groups deadlock.
 */
function publishStatement(name: string, reserve: string, isAccepted: string): Statement {
  return {
    name,
    text: `
      ${withClock}, current as materialized (
        select m.*
          from unnest(
                 $1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
                 $9::text[], $10::bigint[], $11::integer[], $12::integer[]
               ) as m (key, id, app, version, event_type, event_id, channels, content_type, endpoints, delay_ms, start, length)
         cross join lateral (
                 select from application where key = m.app and version = m.version and deleted_at is null limit 1
               ) as unchanged
      ), ${reserve} accepted as materialized (
        select * from current where ${isAccepted}
      ), stored as (
        insert into message (key, id, app, event_type, event_id, channels, content_type, endpoints, body)
        select key, id, app, event_type, event_id, channels::json, content_type, endpoints::bigint[],
               substring($13::bytea from start for length)
          from accepted
      ), queued as (
        insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts)
        select endpoint, case when delay_ms > 0 then 1 else 0 end, now + delay_ms, key, now + delay_ms, 0, 0
          from clock, accepted, unnest(endpoints::bigint[]) as endpoint
      )
      select now, (select array_agg(key) from current) as current, (select array_agg(key) from accepted) as accepted
        from clock`,
  }
}

export const publishPlain = publishStatement('publish', '', 'true')

export const publishWithEventIds = publishStatement(
  'publish-event-ids',
  `reserved as (
    insert into event_id (app, event_id, message)
    select app, event_id, key from current where event_id is not null order by app, event_id, key
    on conflict do nothing
    returning message
  ),`,
  'event_id is null or key in (select message from reserved)',
)

// By itself, after the publishing: a reservation made by another transaction at the same moment is invisible to it.
export const selectByEventIds: Statement = {
  name: 'by-event-ids',
  text: `
    select wanted.n, m.id
      from unnest($1::bigint[], $2::text[]) with ordinality as wanted (app, event_id, n)
     cross join lateral (
             select message from event_id where app = wanted.app and event_id = wanted.event_id limit 1
           ) as e
     cross join lateral (select id from message where key = e.message limit 1) as m`,
}

interface Answer {
  readonly now: number
  readonly current: number[] | null
  readonly accepted: number[] | null
}

interface SubscriptionRow {
  readonly version: number
  readonly key: number | null
  readonly event_types: string[] | null
  readonly channels: string[] | null
}

/** Takes messages in. */
export function intake(database: Database): Intake {
  const { durable, keys, time, context } = database

  /** Stores a group under new keys and answers which of them were current and which were accepted. */
  function store(publications: readonly Publication[]): Promise<{ identities: Identity[]; answer: Answer }> {
    const statement = publications.some((p) => p.eventId !== null) ? publishWithEventIds : publishPlain
    const contents = contentsOf(publications)
    return keys.make(async (next) => {
      const identities = publications.map(() => {
        const key = next()
        return { key, id: encodeId('msg', key, context.randomText) }
      })
      const values = [integers(identities.map((i) => i.key)), texts(identities.map((i) => i.id)), ...contents]
      const [answer] = await durable.run<Answer>(statement, values)
      return { identities, answer: answer as Answer }
    })
  }

  async function conflicting(publications: readonly Publication[]): Promise<Map<Publication, string>> {
    if (publications.length === 0) return new Map()
    const values = [integers(publications.map((p) => p.app)), texts(publications.map((p) => p.eventId))]
    const rows = await durable.run<{ n: number; id: string }>(selectByEventIds, values)
    return new Map(rows.map(({ n, id }) => [publications[n - 1] as Publication, id]))
  }

  return {
    async subscriptions(app) {
      const rows = await durable.run<SubscriptionRow>(selectSubscriptions, [app])
      const [first] = rows
      if (first === undefined) return undefined
      const list = rows.flatMap(({ key, event_types: eventTypes, channels }) =>
        key === null ? [] : [{ endpoint: key, eventTypes, channels }],
      )
      return { version: first.version, list }
    },

    async publish(publications) {
      if (publications.length === 0) return []
      const { identities, answer } = await store(publications)
      time.learn(answer.now)
      const current = new Set(answer.current)
      const accepted = new Set(answer.accepted)

      const queued = publications.filter((_, i) => accepted.has(identities[i]?.key as number))
      announce(database, queued, answer.now)
      const refused = publications.filter((_, i) => {
        const { key } = identities[i] as Identity
        return current.has(key) && !accepted.has(key)
      })
      const taken = await conflicting(refused)
      return publications.map((publication, i): Published => {
        const identity = identities[i] as Identity
        if (accepted.has(identity.key)) return { state: 'accepted', ...identity }
        const id = taken.get(publication)
        return id === undefined ? { state: 'stale' } : { state: 'conflict', id }
      })
    },
  }
}

/** Parameters 3 to 13 of a publish statement. */
function contentsOf(publications: readonly Publication[]): unknown[] {
  const bodies = packed(publications.map((p) => p.body))
  return [
    integers(publications.map((p) => p.app)),
    integers(publications.map((p) => p.version)),
    texts(publications.map((p) => p.eventType)),
    texts(publications.map((p) => p.eventId)),
    texts(publications.map((p) => toJson(p.channels))),
    texts(publications.map((p) => p.contentType)),
    texts(publications.map((p) => integers(p.endpoints))),
    integers(publications.map((p) => Math.max(0, Math.ceil(p.delayMs)))),
    bodies.starts,
    bodies.lengths,
    bodies.bytes,
  ]
}

/** Tells this process's watcher of rows just committed, and has the lanes that nobody owns woken. */
function announce({ signals, wakes }: Database, queued: readonly Publication[], now: number): void {
  const endpoints = new Set<number>()
  const freshOnes = new Set<number>()
  let onlyFresh = true
  for (const publication of queued) {
    const isFresh = publication.delayMs <= 0
    if (!isFresh) {
      onlyFresh = false
      wakes.wish(publication.endpoints, now + Math.ceil(publication.delayMs), false)
    }
    for (const endpoint of publication.endpoints) {
      endpoints.add(endpoint)
      if (isFresh) freshOnes.add(endpoint)
    }
  }
  if (endpoints.size === 0) return
  wakes.wish(freshOnes, 0, true)
  signals.rows([...endpoints], onlyFresh ? fresh : undefined)
}
