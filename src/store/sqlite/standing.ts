import type { EpochMs } from '../../domain/clock.ts'
import { fresh, timed } from '../../domain/delivery.ts'
import { isBefore } from '../../domain/ordered-queue.ts'
import { heldMsOf } from '../held.ts'
import { countLimit } from '../replaying.ts'
import type { FirstRow, RowStanding, Standing, StoredAnswer } from '../standing.ts'
import type { Connection, Synchronous } from './connection.ts'

const saveAnswer = 'update lane set snapshot = ?3, snapshot_at = ?4 where endpoint = ?1 and owner = ?2'
const selectAnswer = 'select endpoint, owner, snapshot, snapshot_at from lane where endpoint = ?'
// One seek of pending's primary key.
const selectAny = 'select 1 from pending where endpoint = ? limit 1'

const selectRow = `
  select held_until, order_key, since, expires_at from pending
  where endpoint = ? and class = ? and due_at = ? and message = ?`
// Ranges of pending's primary key, read in its order. What is timed and not due has not taken its place yet.
const selectFirst = `
  select message, due_at as dueAt, attempts, held_until from (
    select message, due_at, attempts, held_until, order_key from pending
    where endpoint = ?1 and class = ?2 and (due_at, message) < (?3, ?4) and due_at <= ?5
    order by due_at, message limit ${countLimit})
  where ?6 is null or order_key = ?6 order by dueAt, message limit 1`
const selectId = 'select id from message where key = ?'

interface RowColumns {
  readonly held_until: EpochMs | null
  readonly order_key: number | null
  readonly since: EpochMs
  readonly expires_at: EpochMs | null
}

interface PlacedRow {
  readonly message: number
  readonly dueAt: EpochMs
  readonly attempts: number
  readonly held_until: EpochMs | null
}

interface AnswerRow {
  readonly endpoint: number
  readonly owner: number | null
  readonly snapshot: string | null
  readonly snapshot_at: EpochMs
}

/** Behind everything. */
const last = { dueAt: Number.MAX_SAFE_INTEGER, message: 0 }

/** How lanes stand at this moment, by their owners' word. The workers of a file are in one process: this one or none. */
export function standing(connection: Connection): Synchronous<Standing> {
  const save = connection.prepare(saveAnswer)
  const answer = connection.prepare<AnswerRow>(selectAnswer)
  const any = connection.prepare<unknown>(selectAny)
  const row = connection.prepare<RowColumns>(selectRow)
  const first = connection.prepare<PlacedRow>(selectFirst)
  const idOf = connection.prepare<{ id: string }>(selectId)

  return {
    askLanes(endpoints): boolean {
      if (connection.watcher?.asked === undefined) return false
      connection.watcher.asked(endpoints)
      return true
    },

    answerLanes(worker, answers): void {
      if (answers.length === 0) return
      connection.transaction(() => {
        const now = connection.now()
        for (const { endpoint, snapshot } of answers) save.run(endpoint, worker, snapshot, now)
      })
    },

    readAnswers(endpoints): StoredAnswer[] {
      return endpoints
        .toSorted((a, b) => a - b)
        .flatMap((endpoint) => {
          const row = answer.get(endpoint)
          if (row === undefined) return []
          const { owner, snapshot, snapshot_at: snapshotAt } = row
          return [{ endpoint, owner, snapshot, snapshotAt }]
        })
    },

    findRow(endpoint, { class: itsClass, dueAt, message }): RowStanding | undefined {
      const found = row.get(endpoint, itsClass, dueAt, message)
      if (found === undefined) return undefined
      const heldMs = heldMsOf(found.held_until, connection.now())
      return { heldMs, orderKey: found.order_key, since: found.since, expiresAt: found.expires_at }
    },

    findFirst(endpoint, orderKey, before): FirstRow | undefined {
      const now = connection.now()
      const { dueAt, message } = before ?? last
      const one = first.get(endpoint, fresh, dueAt, message, last.dueAt, orderKey)
      const other = first.get(endpoint, timed, dueAt, message, now, orderKey)
      const found = one && other ? (isBefore(one, other) ? one : other) : (one ?? other)
      if (found === undefined) return undefined
      const { attempts } = found
      const id = idOf.get(found.message)?.id ?? null
      return { id, message: found.message, attempts, heldMs: heldMsOf(found.held_until, now) }
    },

    waitingAmong(endpoints): number[] {
      return endpoints.filter((endpoint) => any.get(endpoint) !== undefined).sort((a, b) => a - b)
    },
  }
}
