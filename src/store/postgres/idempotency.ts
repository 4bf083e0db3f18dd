import { type Idempotency, type Once, openAnswer, sealAnswer } from '../publishing.ts'
import { integers, texts } from './arrays.ts'
import type { Database } from './database.ts'
import { sqlNow, withClock } from './database.ts'
import { type Run, statement } from './sessions.ts'

// A hash that another transaction takes at this moment is waited for. An expired hash is taken over in place.
export const takeHashes = statement(
  'take-hashes',
  `
    ${withClock}
    insert into idempotency (hash, fingerprint, expires_at, message, answer)
    select hash, fingerprint, now + ttl_ms, message, $5::bytea
      from clock, unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) as o (hash, fingerprint, ttl_ms, message)
     order by hash
    on conflict (hash) do update
      set fingerprint = excluded.fingerprint, expires_at = excluded.expires_at, message = excluded.message,
          status = null, answer = excluded.answer
      where idempotency.expires_at <= (select now from clock)
    returning hash`,
)
// Without the sum, the planner prefers the index over expires_at, and with it all that has not expired.
export const selectTaken = statement(
  'taken-hashes',
  `
    select o.n, i.fingerprint, i.message, i.status, i.answer, m.id
      from unnest($1::text[]) with ordinality as o (hash, n)
     cross join lateral (
             select fingerprint, message, status, answer from idempotency
              where hash = o.hash and expires_at + 0 > ${sqlNow} limit 1
           ) as i
      left join lateral (select id from message where key = i.message limit 1) as m on true`,
)
const keepAnswer = statement(
  'keep-answer',
  `
    update idempotency set status = $2, answer = $3, expires_at = ${sqlNow} + $4::bigint
     where hash = $1 and message is null and status is null`,
)
const deleteUnanswered = statement(
  'abandon-hash',
  'delete from idempotency where hash = $1 and message is null and status is null',
)
// A range of idempotency_expires, from its low end; whatever another process is sweeping is left to it.
export const deleteExpired = statement(
  'sweep-idempotency',
  `
    ${withClock}
    delete from idempotency where ctid = any (array (
      select ctid from idempotency where expires_at <= (select now from clock)
       order by expires_at limit $1 for update skip locked))
    returning 1`,
)

export interface Taken {
  readonly n: number
  readonly fingerprint: string
  /** The message of a publish; of a batch, the first. */
  readonly message: number | null
  /** The message's id, while it exists. */
  readonly id: string | null
  readonly status: number | null
  readonly answer: Uint8Array | null
}

/** Takes hashes for what they became; answers how many could be had. */
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

/** Those of these hashes that are taken; `n` counts them from 1. */
export function findTaken(run: Run, hashes: readonly string[]): Promise<Taken[]> {
  return hashes.length === 0 ? Promise.resolve([]) : run<Taken>(selectTaken, [texts(hashes)])
}

/** Requests that are carried out once. */
export function idempotency({ durable, relaxed, context }: Database): Idempotency {
  const { vault } = context
  return {
    async reserve(once, reserveMs) {
      const kept = { once: { ...once, ttlMs: reserveMs }, message: null }
      // Between two statements the one that holds it may go: then it is to be had after all.
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
