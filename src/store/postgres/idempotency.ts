import type { Identity } from '../../domain/ids.ts'
import {
  type Idempotency,
  type Once,
  openAnswer,
  type Publication,
  type Published,
  sealAnswer,
  writeIdentities,
} from '../publishing.ts'
import { type Database, sqlNow, withClock } from './database.ts'
import { overtaken } from './publish-statement.ts'
import { integers, postgresStatement, type Run, texts } from './sessions.ts'

// Waits for a transaction that takes the same hash at this moment. An expired hash is taken over in place.
const takeHashes = postgresStatement('take-hashes')`
  ${withClock}
  insert into idempotency (hash, fingerprint, expires_at, message, answer)
  select hash, fingerprint, now + ttl_ms, message, $5::bytea
    from clock, unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) as o (hash, fingerprint, ttl_ms, message)
   order by hash
  on conflict (hash) do update
    set fingerprint = excluded.fingerprint, expires_at = excluded.expires_at, message = excluded.message,
        status = null, answer = excluded.answer
    where idempotency.expires_at <= (select now from clock)
  returning hash`
// Without the sum, the planner prefers the index over expires_at, and reads every row that has not expired.
const selectTaken = postgresStatement('taken-hashes')`
  select o.n, i.fingerprint, i.message, i.status, i.answer, m.id
    from unnest($1::text[]) with ordinality as o (hash, n)
   cross join lateral (
           select fingerprint, message, status, answer from idempotency
            where hash = o.hash and expires_at + 0 > ${sqlNow} limit 1
         ) as i
    left join lateral (select id from message where key = i.message limit 1) as m on true`
const keepAnswer = postgresStatement('keep-answer')`
  update idempotency set status = $2, answer = $3, expires_at = ${sqlNow} + $4::bigint
   where hash = $1 and message is null and status is null`
const deleteUnanswered = postgresStatement('abandon-hash')`
  delete from idempotency where hash = $1 and message is null and status is null`
// A range of idempotency_expires, from its low end. Rows that another process is sweeping are left to it.
const deleteExpired = postgresStatement('sweep-idempotency')`
  ${withClock}
  delete from idempotency where ctid = any (array (
    select ctid from idempotency where expires_at <= (select now from clock)
     order by expires_at limit $1 for update skip locked))
  returning 1`

interface Taken {
  readonly n: number
  readonly fingerprint: string
  /** The message of a publish; of a batch, the first. */
  readonly message: number | null
  /** The message's id, while it exists. */
  readonly id: string | null
  readonly status: number | null
  readonly answer: Uint8Array | null
}

/** Takes hashes for their messages; answers how many were free. */
export async function take(
  run: Run,
  list: readonly { readonly once: Once; readonly message: number | null }[],
  answer: Uint8Array | null = null,
): Promise<number> {
  const rows = await run(takeHashes, [
    texts(list.map(({ once }) => once.hash)),
    texts(list.map(({ once }) => once.fingerprint)),
    integers(list.map(({ once }) => Math.ceil(once.ttlMs))),
    integers(list.map(({ message }) => message)),
    answer,
  ])
  return rows.length
}

/** The hashes of a list that are taken; `n` counts from 1. */
export function findTaken(run: Run, hashes: readonly string[]): Promise<Taken[]> {
  return hashes.length === 0 ? Promise.resolve([]) : run<Taken>(selectTaken, [texts(hashes)])
}

/** Requests that are carried out once. */
export function idempotency({ durable, relaxed, context }: Database): Idempotency {
  const { vault } = context
  return {
    async reserve(once, reserveMs) {
      const kept = { once: { ...once, ttlMs: reserveMs }, message: null }
      // The hash may become free between the two statements: then it is tried once more.
      for (;;) {
        if ((await take(durable.run, [kept])) > 0) return { state: 'reserved' }
        const [found] = await findTaken(durable.run, [once.hash])
        if (found === undefined) continue
        if (found.fingerprint !== once.fingerprint) return { state: 'mismatch' }
        if (found.status === null) return { state: 'in_flight' }
        return openAnswer(vault, once.hash, found.status, found.answer)
      }
    },

    async complete({ hash, ttlMs }, { status, body }) {
      await durable.run(keepAnswer, [hash, status, sealAnswer(vault, hash, body), Math.ceil(ttlMs)])
    },

    async abandon({ hash }) {
      await durable.run(deleteUnanswered, [hash])
    },

    async sweepIdempotency(limit) {
      return (await relaxed.run(deleteExpired, [limit])).length
    },
  }
}

// A second statement, after the publish: a reservation by another transaction at the same moment is invisible to the first.
const selectByEventIds = postgresStatement('by-event-ids')`
  select wanted.n, m.id
    from unnest($1::bigint[], $2::text[]) with ordinality as wanted (app, event_id, n)
   cross join lateral (
           select message from event_id where app = wanted.app and event_id = wanted.event_id limit 1
         ) as e
   cross join lateral (select id from message where key = e.message limit 1) as m`

/** Separates publications that share no hash from those that wait for their twin. */
export function withoutTwins(
  list: readonly [number, Publication][],
): [[number, Publication][], [number, Publication][]] {
  const seen = new Set<string>()
  const turn: [number, Publication][] = []
  const later: [number, Publication][] = []
  for (const entry of list) {
    const once = entry[1].once ?? []
    const isTwin = once.some(({ hash }) => seen.has(hash))
    for (const { hash } of once) seen.add(hash)
    ;(isTwin ? later : turn).push(entry)
  }
  return [turn, later]
}

/** A hash that is taken by a message which was removed. */
export interface LeftHash {
  readonly hash: string
  readonly message: number
}

const deleteLeft = postgresStatement('free-left-hashes')`
  delete from idempotency where ctid = any (array (
    select i.ctid from unnest($1::text[], $2::bigint[]) as l (hash, message)
     cross join lateral (
             select ctid from idempotency where hash = l.hash and message = l.message limit 1
           ) as i))`

/** Frees hashes of removed messages, so that the publications that met them can be stored. */
export async function freeLeft(run: Run, left: readonly LeftHash[]): Promise<void> {
  if (left.length === 0) return
  await run(deleteLeft, [texts(left.map(({ hash }) => hash)), integers(left.map(({ message }) => message))])
}

/**
 * Why publications at the right version were not stored. Publications that are missing in the answer are tried again; those
 * that met a hash of a removed message, which is added to `left`, once it is free.
 */
export async function reasonsOf(
  run: Run,
  refused: readonly Publication[],
  left: LeftHash[],
): Promise<Map<Publication, Published>> {
  const reasons = new Map<Publication, Published>()
  if (refused.length === 0) return reasons
  const asked = refused.flatMap((publication) => (publication.once ?? []).map((once) => ({ publication, once })))
  const found = await findTaken(
    run,
    asked.map(({ once }) => once.hash),
  )
  for (const { n, fingerprint, message, id } of found) {
    const { publication, once } = asked[n - 1] as (typeof asked)[number]
    if (reasons.has(publication)) continue
    if (fingerprint !== once.fingerprint || message === null) reasons.set(publication, { state: 'mismatch' })
    else if (id !== null) {
      reasons.set(publication, { state: 'repeated', key: message, id })
      // A later repeat of this request gets the same answer, also when the hash that was found here has expired.
      const before = (publication.once ?? []).slice(0, publication.once?.indexOf(once))
      const repeats = before.map((each) => ({ once: each, message }))
      if (repeats.length > 0) await take(run, repeats)
    } else left.push({ hash: once.hash, message })
  }
  const unexplained = refused.filter((publication) => publication.eventId !== null && !reasons.has(publication))
  if (unexplained.length === 0) return reasons
  const values = [integers(unexplained.map((p) => p.app)), texts(unexplained.map((p) => p.eventId))]
  for (const { n, id } of await run<{ n: number; id: string }>(selectByEventIds, values)) {
    reasons.set(unexplained[n - 1] as Publication, { state: 'conflict', id })
  }
  return reasons
}

/** Takes one hash for a batch of messages. */
export async function takeTogether(run: Run, once: Once, messages: readonly Identity[]): Promise<void> {
  const taken = await take(run, [{ once, message: messages[0]?.key ?? null }], writeIdentities(messages))
  if (taken === 0) throw Object.assign(new Error('the hash was taken meanwhile'), { code: overtaken })
}
