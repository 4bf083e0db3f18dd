import { keyTime } from '../../domain/ids.ts'
import { indexed } from '../../features/dead-letters/rows.ts'
import {
  type AppRetention,
  lastLookMs,
  type PayloadEnd,
  type Retained,
  type Retention,
  type Sweeping,
} from '../maintenance.ts'
import { firstLookMs } from '../publishing.ts'
import { among, deleteFound, forUpdateSkipLocked, greatest, least } from './dialect.ts'
import { deleteOf, inSpan, messageTables, spanOfKeys } from './message-rows.ts'
import type { Methods, Port, Work } from './port.ts'
import { fragment, statement } from './statement.ts'

const rowsPerStep = 500

// Both lean on dead_died.
const diedBefore = fragment`${indexed('died_at')} < :now - cast(:kept_ms as bigint)`
const oldestDied = fragment`order by ${indexed('died_at')} limit ${rowsPerStep}`
const deleteOldDead = statement('delete-old-dead')`
  ${deleteFound('dead', 'endpoint, message', fragment`where ${diedBefore} ${oldestDied}`)}`
const othersDied = fragment`where ${diedBefore} and not (${among('app', ':apps')}) ${oldestDied}`
const deleteOldDeadBut = statement('delete-old-dead-but')`${deleteFound('dead', 'endpoint, message', othersDied)}`
// Leans on dead_app.
const diedOf = `where app = :app and died_at < :now - cast(:kept_ms as bigint) order by died_at limit ${rowsPerStep}`
const deleteDeadOf = statement('delete-old-dead-of')`${deleteFound('dead', 'endpoint, message', diedOf)}`
// Leans on application_retention.
const selectRetentions = statement<AppRetention>('retentions')`
  select key as app, cast(settings ->> 'retentionSeconds' as bigint) * 1000 as "historyMs",
         cast(settings ->> 'deadRetentionSeconds' as bigint) * 1000 as "deadMs"
    from application
   where key > :after and deleted_at is null
     and (settings ->> 'retentionSeconds' is not null or settings ->> 'deadRetentionSeconds' is not null)
   order by key limit :limit`
// Probes of the primary keys.
const selectRemovable = statement<{ key: number; event_id: string | null }>('removable-messages')`
  select key, event_id from message
   where ${among('key', ':messages')} and ${inSpan('key')} and app = :app
     and (select 1 from fan_out where fan_out.message = message.key limit 1) is null`
const deleteEventId = statement('delete-event-id')`
  delete from event_id where app = :app and event_id = :event_id and message = :message`
const deleteMessages = statement('delete-messages')`
  delete from message where ${among('key', ':messages')} and ${inSpan('key')}`
// Leans on task_ended.
const deleteOldTasks = statement('delete-old-tasks')`
  ${deleteFound(
    'task',
    'key',
    `where status in ('finished', 'failed', 'cancelled') and updated_at < :now - cast(:kept_ms as bigint)
     order by updated_at limit ${rowsPerStep}`,
  )}`
// Leans on payload_end_at.
const selectPayloadEnds = statement<PayloadEnd>('payload-ends', { flags: ['isOver'] })`
  select message, at, not once_delivered or coalesce(over_at <= :now, false) as "isOver"
    from payload_end where at <= :now order by at limit :limit`
const postponePayloadEnd = statement('postpone-payload-end')`
  update payload_end set at = ${least(
    'coalesce(over_at, :now + :most)',
    least(':now + :most', greatest(':now + :least', ':now + :now - :made_at')),
  )}
   where message = :message`
// A range of coalescing_due, from its low end. Windows that another transaction has locked are left for the next sweep.
const ended = fragment`where due_at <= :now order by due_at limit :limit ${forUpdateSkipLocked}`
const deleteEndedWindows = statement('sweep-windows')`${deleteFound('coalescing', 'endpoint, key', ended)}`

/**
 * Removes some messages that are older than this with their attempts. Messages of an application that keeps them longer stay
 * until they are as old as that. Each database has a way of its own.
 */
export type RemoveHistory = (historyMs: number, longer: ReadonlyMap<number, number>) => Work<Retained>

/** Removes old rows. */
export function retention(
  port: Port,
  removeHistory: RemoveHistory,
): Methods<Omit<Retention, 'upkeep'> & Pick<Sweeping, 'sweepWindows'>> {
  return {
    *retain({ historyMs, deadMs, apps = [] }) {
      const ownDead = apps.filter((each) => each.deadMs !== null).map(({ app }) => app)
      let dead: unknown[] = []
      if (deadMs !== null && ownDead.length === 0) dead = yield* port.relaxed.all(deleteOldDead, { kept_ms: deadMs })
      else if (deadMs !== null) dead = yield* port.relaxed.all(deleteOldDeadBut, { kept_ms: deadMs, apps: ownDead })
      if (historyMs === null) return { removed: dead.length, more: dead.length === rowsPerStep }
      const tasks = yield* port.relaxed.all(deleteOldTasks, { kept_ms: historyMs })
      const { removed, more } = yield* removeHistory(historyMs, longerThan(historyMs, apps))
      return {
        removed: removed + dead.length + tasks.length,
        more: more || dead.length === rowsPerStep || tasks.length === rowsPerStep,
      }
    },

    *listRetentions(after, limit) {
      return { now: yield* port.now(), apps: yield* port.relaxed.all(selectRetentions, { after, limit }) }
    },

    removeDead: (app, keptMs) => port.relaxed.count(deleteDeadOf, { app, kept_ms: keptMs }),

    *removeMessages(app, messages) {
      if (messages.length === 0) return 0
      return yield* port.relaxed.transaction(function* (sql) {
        const rows = yield* sql.all(selectRemovable, { app, messages, ...spanOfKeys(messages) })
        const keys = rows.map(({ key }) => key)
        if (keys.length === 0) return 0
        for (const { key, event_id } of rows) {
          if (event_id !== null) yield* sql.run(deleteEventId, { app, event_id, message: key })
        }
        const values = { messages: keys, ...spanOfKeys(keys) }
        for (const table of messageTables) yield* sql.run(deleteOf[table], values)
        yield* sql.run(deleteMessages, values)
        return keys.length
      })
    },

    duePayloadEnds: (limit) => port.relaxed.all(selectPayloadEnds, { limit }),

    *postponePayloadEnds(messages) {
      for (const message of messages) {
        const values = { message, made_at: keyTime(message), least: firstLookMs, most: lastLookMs }
        yield* port.relaxed.run(postponePayloadEnd, values)
      }
    },

    forgetPayloadEnds: (messages) => port.relaxed.run(deleteOf.payload_end, { messages, ...spanOfKeys(messages) }),

    sweepWindows: (limit) => port.relaxed.count(deleteEndedWindows, { limit }),
  }
}

/** The applications that keep messages longer than this, and for how long. */
function longerThan(historyMs: number, apps: readonly AppRetention[]): ReadonlyMap<number, number> {
  return new Map(apps.flatMap(({ app, historyMs: own }) => (own !== null && own > historyMs ? [[app, own]] : [])))
}
