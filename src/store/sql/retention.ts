import { keyTime } from '../../domain/ids.ts'
import { lastLookMs, type PayloadEnd, type Retained, type Retention, type Sweeping } from '../maintenance.ts'
import { firstLookMs } from '../publishing.ts'
import { indexed } from './dead-letters.ts'
import type { Methods, Port, Work } from './port.ts'
import { statement } from './statement.ts'

const rowsPerStep = 500

// Leans on dead_died.
const deleteOldDead = statement('delete-old-dead', (dialect) => {
  const diedAt = indexed(dialect, 'died_at')
  const old = `where ${diedAt} < :now - cast(:kept_ms as bigint) order by ${diedAt} limit ${rowsPerStep}`
  return dialect.deleteFound('dead', 'endpoint, message', old)
})
// Leans on task_ended.
const deleteOldTasks = statement('delete-old-tasks', ({ deleteFound }) =>
  deleteFound(
    'task',
    'key',
    `where status in ('finished', 'failed', 'cancelled') and updated_at < :now - cast(:kept_ms as bigint)
     order by updated_at limit ${rowsPerStep}`,
  ),
)
// Leans on payload_end_at.
const selectPayloadEnds = statement<PayloadEnd>(
  'payload-ends',
  `select message, at, not once_delivered or coalesce(over_at <= :now, false) as "isOver"
     from payload_end where at <= :now order by at limit :limit`,
  { flags: ['isOver'] },
)
const postponePayloadEnd = statement(
  'postpone-payload-end',
  ({ least, greatest }) => `
    update payload_end set at = ${least(
      'coalesce(over_at, :now + :most)',
      least(':now + :most', greatest(':now + :least', ':now + :now - :made_at')),
    )}
     where message = :message`,
)
const deletePayloadEnds = statement(
  'delete-payload-ends',
  ({ among }) => `delete from payload_end where ${among('message', ':messages', 'bigint')}`,
)
// A range of coalescing_due, from its low end. Windows that another transaction has locked are left for the next sweep.
const deleteEndedWindows = statement('sweep-windows', ({ deleteFound, forUpdateSkipLocked }) =>
  deleteFound(
    'coalescing',
    'endpoint, key',
    `where due_at <= :now order by due_at limit :limit ${forUpdateSkipLocked}`,
  ),
)

/** Removes some messages that are older than this with their attempts. Each database has a way of its own. */
export type RemoveHistory = (historyMs: number) => Work<Retained>

type RetentionMethods = Omit<Retention, 'upkeep'> & Pick<Sweeping, 'sweepWindows'>

/** Removes old rows. */
export function retention(port: Port, removeHistory: RemoveHistory): Methods<RetentionMethods> {
  return {
    *retain({ historyMs, deadMs }) {
      const dead = deadMs === null ? [] : yield* port.relaxed.all(deleteOldDead, { kept_ms: deadMs })
      if (historyMs === null) return { removed: dead.length, more: dead.length === rowsPerStep }
      const tasks = yield* port.relaxed.all(deleteOldTasks, { kept_ms: historyMs })
      const { removed, more } = yield* removeHistory(historyMs)
      return {
        removed: removed + dead.length + tasks.length,
        more: more || dead.length === rowsPerStep || tasks.length === rowsPerStep,
      }
    },

    *duePayloadEnds(limit) {
      return yield* port.relaxed.all(selectPayloadEnds, { limit })
    },

    *postponePayloadEnds(messages) {
      for (const message of messages) {
        const values = { message, made_at: keyTime(message), least: firstLookMs, most: lastLookMs }
        yield* port.relaxed.all(postponePayloadEnd, values)
      }
    },

    *forgetPayloadEnds(messages) {
      yield* port.relaxed.all(deletePayloadEnds, { messages })
    },

    *sweepWindows(limit) {
      return (yield* port.relaxed.all(deleteEndedWindows, { limit })).length
    },
  }
}
