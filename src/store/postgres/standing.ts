import type { EpochMs } from '../../domain/clock.ts'
import type { Class } from '../../domain/delivery.ts'
import { fresh, timed } from '../../domain/delivery.ts'
import { sqlHeldMs, toHeldMs } from '../held.ts'
import { countLimit } from '../replaying.ts'
import type { Standing } from '../standing.ts'
import { integers, texts } from './arrays.ts'
import type { Database } from './database.ts'
import { withClock } from './server-time.ts'
import { statement } from './sessions.ts'

export const saveAnswers = statement(
  'answer-lanes',
  `
    ${withClock}
    update lane set snapshot = ($3::text[])[array_position($2::bigint[], endpoint)],
           snapshot_at = (select now from clock)
     where endpoint = any ($2::bigint[]) and owner = $1`,
)

export const selectAnswers = statement(
  'lane-answers',
  `
    select endpoint, owner, snapshot, snapshot_at from lane where endpoint = any ($1::bigint[]) order by endpoint`,
)

// One seek of pending's primary key each.
export const selectWaiting = statement(
  'waiting-among',
  `
    select asked.endpoint
      from unnest($1::bigint[]) as asked (endpoint)
     cross join lateral (select from pending where endpoint = asked.endpoint limit 1) as waiting
     order by asked.endpoint`,
)

export const selectRow = statement(
  'row-standing',
  `
    ${withClock}
    select ${sqlHeldMs('held_until', 'clock.now')} as held_ms, order_key, since, expires_at from clock, pending
     where endpoint = $1 and class = $2 and due_at = $3 and message = $4`,
)

// Ranges of pending's primary key, read in its order. What is timed and not due has not taken its place yet.
const sqlFirst = (itsClass: Class) => `
  (select * from (
     select message, due_at, attempts, held_until, order_key from pending
      where endpoint = $1 and class = ${itsClass} and (due_at, message) < ($2::bigint, $3::bigint)
        ${itsClass === timed ? 'and due_at <= (select now from clock)' : ''}
      order by due_at, message limit ${countLimit}) as line
    where $4::bigint is null or order_key = $4::bigint order by due_at, message limit 1)`
export const firstOfLine = statement(
  'first-of-line',
  `
    ${withClock}, firsts as materialized (${sqlFirst(fresh)} union all ${sqlFirst(timed)})
    select firsts.message, firsts.attempts, ${sqlHeldMs('firsts.held_until', '(select now from clock)')} as held_ms,
           (select id from message where key = firsts.message limit 1) as id
      from firsts order by firsts.due_at, firsts.message limit 1`,
)

interface AnswerRow {
  readonly endpoint: number
  readonly owner: number | null
  readonly snapshot: string | null
  readonly snapshot_at: EpochMs
}

interface RowColumns {
  readonly held_ms: number | null
  readonly order_key: number | null
  readonly since: EpochMs
  readonly expires_at: EpochMs | null
}

interface FirstColumns {
  readonly message: number
  readonly attempts: number
  readonly held_ms: number | null
  readonly id: string | null
}

/** Behind everything. */
const last = { dueAt: Number.MAX_SAFE_INTEGER, message: 0 }

/** How lanes stand at this moment, by their owners' word. */
export function standing({ relaxed, signals }: Database): Standing {
  return {
    async askLanes(endpoints) {
      if (endpoints.length === 0) return true
      signals.asked(endpoints)
      await signals.notify(relaxed.run, 'a', endpoints)
      return true
    },

    async answerLanes(worker, answers) {
      if (answers.length === 0) return
      // The last word on each: a row can be updated only once per statement.
      const last = new Map(answers.map(({ endpoint, snapshot }) => [endpoint, snapshot]))
      await relaxed.run(saveAnswers, [worker, integers([...last.keys()]), texts([...last.values()])])
    },

    async readAnswers(endpoints) {
      if (endpoints.length === 0) return []
      const rows = await relaxed.run<AnswerRow>(selectAnswers, [integers(endpoints)])
      return rows.map(({ endpoint, owner, snapshot, snapshot_at: snapshotAt }) => ({
        endpoint,
        owner,
        snapshot,
        snapshotAt,
      }))
    },

    async findRow(endpoint, { class: itsClass, dueAt, message }) {
      const [row] = await relaxed.run<RowColumns>(selectRow, [endpoint, itsClass, dueAt, message])
      return (
        row && { heldMs: toHeldMs(row.held_ms), orderKey: row.order_key, since: row.since, expiresAt: row.expires_at }
      )
    },

    async findFirst(endpoint, orderKey, before) {
      const { dueAt, message } = before ?? last
      const [row] = await relaxed.run<FirstColumns>(firstOfLine, [endpoint, dueAt, message, orderKey])
      return row && { id: row.id, message: row.message, attempts: row.attempts, heldMs: toHeldMs(row.held_ms) }
    },

    async waitingAmong(endpoints) {
      if (endpoints.length === 0) return []
      const rows = await relaxed.run<{ endpoint: number }>(selectWaiting, [integers(endpoints)])
      return rows.map(({ endpoint }) => endpoint)
    },
  }
}
