import type { EpochMs } from '../../domain/clock.ts'
import type { Standing } from '../standing.ts'
import { integers, texts } from './arrays.ts'
import type { Database } from './database.ts'
import { withClock } from './server-time.ts'
import type { Statement } from './sessions.ts'
import { channel } from './signals.ts'

const notifyAsked: Statement = { name: 'ask-lanes', text: `select pg_notify('${channel}', $1)` }

export const saveAnswers: Statement = {
  name: 'answer-lanes',
  text: `
    ${withClock}
    update lane set snapshot = ($3::text[])[array_position($2::bigint[], endpoint)],
           snapshot_at = (select now from clock)
     where endpoint = any ($2::bigint[]) and owner = $1`,
}

export const selectAnswers: Statement = {
  name: 'lane-answers',
  text: `
    select endpoint, owner, snapshot, snapshot_at from lane where endpoint = any ($1::bigint[]) order by endpoint`,
}

// One seek of pending's primary key each.
export const selectWaiting: Statement = {
  name: 'waiting-among',
  text: `
    select asked.endpoint
      from unnest($1::bigint[]) as asked (endpoint)
     cross join lateral (select from pending where endpoint = asked.endpoint limit 1) as waiting
     order by asked.endpoint`,
}

interface AnswerRow {
  readonly endpoint: number
  readonly owner: number | null
  readonly snapshot: string | null
  readonly snapshot_at: EpochMs
}

/** How lanes stand at this moment, by their owners' word. */
export function standing({ relaxed, signals }: Database): Standing {
  return {
    async askLanes(endpoints) {
      if (endpoints.length === 0) return true
      signals.asked(endpoints)
      await relaxed.run(notifyAsked, [`a${signals.payload(endpoints)}`])
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

    async waitingAmong(endpoints) {
      if (endpoints.length === 0) return []
      const rows = await relaxed.run<{ endpoint: number }>(selectWaiting, [integers(endpoints)])
      return rows.map(({ endpoint }) => endpoint)
    },
  }
}
