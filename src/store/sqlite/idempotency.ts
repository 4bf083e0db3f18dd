import type { EpochMs } from '../../domain/clock.ts'
import {
  type Idempotency,
  type Once,
  openAnswer,
  type Publication,
  type Published,
  type Reservation,
  sealAnswer,
} from '../publishing.ts'
import type { Connection, Synchronous } from './connection.ts'

const dayMs = 24 * 60 * 60 * 1000

interface Taken {
  readonly fingerprint: string
  /** The message of a publish; of a batch, the first. */
  readonly message: number | null
  readonly status: number | null
  readonly answer: Uint8Array | null
}

/** The hashes that are taken. Each method runs inside the caller's transaction. */
interface TakenOnce {
  find(once: Once, now: EpochMs): Taken | undefined
  take(once: Once, message: number | null, answer: Uint8Array | null, now: EpochMs, status?: number): void
  free(once: Once, now: EpochMs): void
}

export function takenOnce(connection: Connection): TakenOnce {
  const byHash = connection.prepare<Taken>(`
    select fingerprint, message, status, answer from idempotency where day = ? and hash = ? and expires_at > ?`)
  const insert = connection.prepare(`
    insert or replace into idempotency (day, hash, fingerprint, expires_at, message, status, answer)
    values (?, ?, ?, ?, ?, ?, ?)`)
  const remove = connection.prepare('delete from idempotency where day between ? and ? and hash = ?')
  return {
    // A hash that was taken for at most `ttlMs` expires on one of these days: two, for the 24 hours of a request.
    find({ hash, ttlMs }, now) {
      for (let day = dayOf(now); day <= dayOf(now + ttlMs); day++) {
        const found = byHash.get(day, hash, now)
        if (found) return found
      }
      return undefined
    },
    take({ hash, fingerprint, ttlMs }, message, answer, now, status) {
      const expiresAt = now + Math.ceil(ttlMs)
      insert.run(dayOf(expiresAt), hash, fingerprint, expiresAt, message, status ?? null, answer)
    },
    free: ({ hash, ttlMs }, now) => void remove.run(dayOf(now), dayOf(now + ttlMs), hash),
  }
}

/** Requests that are carried out once. */
export function idempotency(connection: Connection): Synchronous<Idempotency> {
  const { vault } = connection.context
  const taken = takenOnce(connection)
  const free = connection.prepare(
    'delete from idempotency where day = ? and hash = ? and message is null and status is null',
  )
  // The low end of the primary key.
  const sweep = connection.prepare(`
    delete from idempotency
    where (day, hash) in (select day, hash from idempotency where day < ? order by day, hash limit +?)`)

  /** Removes a reservation, which lasts minutes; answers whether there was one. */
  function release({ hash }: Once, now: EpochMs): boolean {
    return [0, 1].some((more) => free.run(dayOf(now) + more, hash).changes > 0)
  }

  return {
    reserve(once, reserveMs): Reservation {
      return connection.transaction(() => {
        const now = connection.now()
        const found = taken.find(once, now)
        if (found === undefined) {
          taken.take({ ...once, ttlMs: reserveMs }, null, null, now)
          return { state: 'reserved' }
        }
        if (found.fingerprint !== once.fingerprint) return { state: 'mismatch' }
        if (found.status === null) return { state: 'in_flight' }
        return openAnswer(vault, once.hash, found.status, found.answer)
      })
    },

    complete(once, { status, body }): void {
      connection.transaction(() => {
        const now = connection.now()
        if (release(once, now)) taken.take(once, null, sealAnswer(vault, once.hash, body), now, status)
      })
    },

    abandon(once): void {
      connection.transaction(() => release(once, connection.now()))
    },

    // Hashes that expired today are removed tomorrow.
    sweepIdempotency(limit): number {
      return sweep.run(dayOf(connection.now()), limit).changes
    },
  }
}

/** The day, counted from 1970, that an instant belongs to. */
function dayOf(at: EpochMs): number {
  return Math.floor(at / dayMs)
}

/** Makes the function that answers why a publication is not stored: it repeats a message, or its event id is taken. */
export function repeats(
  connection: Connection,
  taken: TakenOnce,
): (publication: Publication, now: EpochMs) => Published | undefined {
  const byEventId = connection.prepare<{ id: string }>(`
    select message.id from event_id join message on message.key = event_id.message
    where event_id.app = ? and event_id.event_id = ?`)
  const idOf = connection.prepare<{ id: string }>('select id from message where key = ?')

  /** The message that this publication repeats, if there is one. */
  function repeatOf(once: readonly Once[], now: EpochMs): Published | undefined {
    for (const [i, each] of once.entries()) {
      const found = taken.find(each, now)
      if (found === undefined) continue
      if (found.fingerprint !== each.fingerprint || found.message === null) return { state: 'mismatch' }
      const key = found.message
      const row = idOf.get(key)
      if (row === undefined) {
        // The message was removed: left here, its hash would hide that of the message to come.
        taken.free(each, now)
        continue
      }
      // A later repeat of this request gets the same answer, also when the hash that was found here has expired.
      for (const earlier of once.slice(0, i)) taken.take(earlier, key, null, now)
      return { state: 'repeated', key, id: row.id }
    }
    return undefined
  }

  return ({ app, eventId, once }, now) => {
    const repeated = once === undefined || once.length === 0 ? undefined : repeatOf(once, now)
    if (repeated !== undefined || eventId === null) return repeated
    const holder = byEventId.get(app, eventId)
    return holder && { state: 'conflict', id: holder.id }
  }
}
