import type { EpochMs } from '../../domain/clock.ts'
import type { Standing, StoredAnswer } from '../standing.ts'
import type { Connection, Synchronous } from './connection.ts'

const saveAnswer = 'update lane set snapshot = ?3, snapshot_at = ?4 where endpoint = ?1 and owner = ?2'
const selectAnswer = 'select endpoint, owner, snapshot, snapshot_at from lane where endpoint = ?'
// One seek of pending's primary key.
const selectAny = 'select 1 from pending where endpoint = ? limit 1'

interface AnswerRow {
  readonly endpoint: number
  readonly owner: number | null
  readonly snapshot: string | null
  readonly snapshot_at: EpochMs
}

/** How lanes stand at this moment, by their owners' word. A file has its workers in one process, which is this one or none. */
export function standing(connection: Connection): Synchronous<Standing> {
  const save = connection.prepare(saveAnswer)
  const answer = connection.prepare<AnswerRow>(selectAnswer)
  const any = connection.prepare<unknown>(selectAny)

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

    waitingAmong(endpoints): number[] {
      return endpoints.filter((endpoint) => any.get(endpoint) !== undefined).sort((a, b) => a - b)
    },
  }
}
