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
import { dayOf, type StoreHashes, type TakenHashes } from './taken-hashes.ts'

/** Days whose expired hashes are removed at a time; of the slices of their runs, each has several pages. */
const rowsPerSlice = 10

/** Requests that are carried out once. */
export function idempotency(connection: Connection, taken: StoreHashes): Synchronous<Idempotency> {
  const { vault } = connection.context
  // The low ends of the primary keys.
  const sweep = connection.prepare(`
    delete from taken_hash
    where (day, seq) in (select day, seq from taken_hash where day < ? order by day, seq limit +?)`)
  const sweepRuns = connection.prepare(`
    delete from taken_run
    where (day, level, run, slice) in (
      select day, level, run, slice from taken_run where day < ? order by day, level, run, slice limit +?)`)

  /** Frees a reservation, which lasts minutes; answers whether there was one. */
  function release({ hash }: Once, now: EpochMs): boolean {
    for (const day of [dayOf(now), dayOf(now) + 1]) {
      const found = taken.newest(day, hash)
      if (found === undefined || found.message !== null || found.status !== null) continue
      taken.free(found)
      return true
    }
    return false
  }

  return {
    reserve(once, reserveMs): Reservation {
      taken.tidy()
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

    // Hashes that expired today are removed tomorrow. Rows go first: a run names rows, and a row without its run would be missed.
    sweepIdempotency(limit): number {
      const now = connection.now()
      taken.tidyAll(now)
      const swept = sweep.run(dayOf(now), limit).changes
      return swept > 0 ? swept : sweepRuns.run(dayOf(now), Math.ceil(limit / rowsPerSlice)).changes
    },
  }
}

/** Makes the function that answers why a publication is not stored: it repeats a message, or its event id is taken. */
export function repeats(
  connection: Connection,
  taken: TakenHashes,
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
        taken.free(found)
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
