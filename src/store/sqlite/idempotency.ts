import type { EpochMs } from '../../domain/clock.ts'
import { type Idempotency, type Once, openAnswer, type Reservation, sealAnswer } from '../idempotency.ts'
import type { Connection, Synchronous } from './connection.ts'

const selectTaken = 'select fingerprint, message, status, answer from idempotency where hash = ? and expires_at > ?'
const insertTaken = `
  insert or replace into idempotency (hash, fingerprint, expires_at, message, status, answer) values (?, ?, ?, ?, null, ?)`
const updateAnswer = `
  update idempotency set status = ?, answer = ?, expires_at = ? where hash = ? and message is null and status is null`
const deleteUnanswered = 'delete from idempotency where hash = ? and message is null and status is null'
// A range of idempotency_expires, from its low end.
const deleteExpired = `
  delete from idempotency where hash in (select hash from idempotency where expires_at <= ? order by expires_at limit ?)`

interface Taken {
  readonly fingerprint: string
  /** What a publish became; for several together, the first. */
  readonly message: number | null
  readonly status: number | null
  readonly answer: Uint8Array | null
}

/** What was taken under hashes. Each method runs inside the caller's transaction. */
export interface TakenOnce {
  find(hash: string, now: EpochMs): Taken | undefined
  take(once: Once, message: number | null, answer: Uint8Array | null, now: EpochMs): void
}

export function takenOnce(connection: Connection): TakenOnce {
  const byHash = connection.prepare<Taken>(selectTaken)
  const insert = connection.prepare(insertTaken)
  return {
    find: (hash, now) => byHash.get(hash, now),
    take({ hash, fingerprint, ttlMs }, message, answer, now) {
      insert.run(hash, fingerprint, now + Math.ceil(ttlMs), message, answer)
    },
  }
}

/** Requests that are carried out once. */
export function idempotency(connection: Connection): Synchronous<Idempotency> {
  const { vault } = connection.context
  const taken = takenOnce(connection)
  const answer = connection.prepare(updateAnswer)
  const free = connection.prepare(deleteUnanswered)
  const sweep = connection.prepare(deleteExpired)

  return {
    reserve(once, reserveMs): Reservation {
      return connection.transaction(() => {
        const now = connection.now()
        const found = taken.find(once.hash, now)
        if (found === undefined) {
          taken.take({ ...once, ttlMs: reserveMs }, null, null, now)
          return { state: 'reserved' }
        }
        if (found.fingerprint !== once.fingerprint) return { state: 'mismatch' }
        if (found.status === null) return { state: 'in_flight' }
        return openAnswer(vault, once.hash, found.status, found.answer)
      })
    },

    complete({ hash, ttlMs }, { status, body }): void {
      answer.run(status, sealAnswer(vault, hash, body), connection.now() + Math.ceil(ttlMs), hash)
    },

    abandon({ hash }): void {
      free.run(hash)
    },

    sweepIdempotency(limit): number {
      return sweep.run(connection.now(), limit).changes
    },
  }
}
