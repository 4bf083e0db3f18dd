import { decodeKey } from '../../domain/ids.ts'
import type { DeliveryKey } from '../../store/messages.ts'
import { among, forUpdate, forUpdateSkipLocked, probe, rowsOf } from '../../store/sql/dialect.ts'
import { deleteDead, deliveryFields, keysOf, requeue } from '../../store/sql/pending-rows.ts'
import { insertNew, type Methods, type Port, type Sql, type Transaction, type Work } from '../../store/sql/port.ts'
import {
  beyond,
  direction,
  either,
  fragment,
  inBothOrders,
  listStart,
  type Shape,
  type StatementPart,
  statement,
  toJson,
} from '../../store/sql/statement.ts'
import { appendAudit } from '../audit/rows.ts'
import { eraseSubjects } from '../erasure/rows.ts'
import { defaultRegion } from '../regions/rules.ts'
import { forgetSamples } from '../sources/rows.ts'
import { longestPauseMs, statusAfter, type Task, type TaskWork } from './rules.ts'
import type { StepDone, Tasks } from './store.ts'

type TaskRow = Omit<Task, 'work'> & TaskWork & { readonly epoch: number }

const columnsWith = (input: StatementPart) =>
  fragment`key, id, app, type, status, ${input}, cursor, data, epoch, created_at as "createdAt", updated_at as "updatedAt"`
const columns = columnsWith('input')
// Parsing 250 lists of letters took 25 ms, in which nothing else was done; SQLite skips them in 3 ms.
const withoutLetters = either(`json_remove(input, '$.letters') as input`, `input::jsonb - 'letters' as input`)
const shape: Shape<TaskRow> = { json: ['input', 'cursor', 'data'] }

const insertTask = statement<TaskRow>('insert-task', shape)`
  insert into task (key, id, app, type, status, input, data, created_at, updated_at)
  values (:key, :id, :app, :type, 'running', :input, :data, :now, :now)
  on conflict (key) do nothing returning ${columns}`
const selectTask = statement<TaskRow>('task', shape)`select ${columns} from task where key = :key`
const selectTasks = inBothOrders<TaskRow>('tasks', shape)`
  select ${columnsWith(withoutLetters)} from task where key ${beyond} :after order by key ${direction} limit :limit`
// Leans on task_running. A lease or a pause that reaches further than it is long was written before the clock was set back.
const freeTask = (condition: StatementPart) => fragment`
  select key from task
   where ${condition} status = 'running' and (lease_until <= :now or lease_until > :now + cast(:lease_ms as bigint))
     and (rest_until <= :now or rest_until > :now + ${longestPauseMs})
   order by lease_until limit 1`
/** The statements that look for a free task and that lease it. */
function taking(name: string, condition: StatementPart) {
  return {
    find: statement(`free-${name}`)`${freeTask(condition)}`,
    lease: statement<TaskRow>(`lease-${name}`, shape)`
      update task set epoch = epoch + 1, lease_until = :now + cast(:lease_ms as bigint)
       where key = (${freeTask(condition)} ${forUpdateSkipLocked})
      returning ${columns}`,
  }
}
const anyTask = taking('task', '')
// A task without an application reads no payloads.
const regionOfTask = `
  coalesce((select region from lane where endpoint = cast(task.input ->> 'endpoint' as bigint)),
           (select settings ->> 'region' from application where key = task.app), '${defaultRegion}')`
const inRegions = fragment`(app is null or ${among(regionOfTask, ':regions', 'text')}) and `
const taskOfRegions = taking('task-of-regions', inRegions)
const lockLeased = statement('lock-leased-task')`
  select key from task where key = :key and epoch = :epoch and status = 'running' ${forUpdate}`
const saveStep = statement('save-step')`
  update task set cursor = :cursor, status = :status, data = :data, lease_until = :now + cast(:lease_ms as bigint),
         rest_until = :now + cast(:pause_ms as bigint), updated_at = :now
   where key = :key`
const releaseLeased = statement('release-task')`
  update task set lease_until = 0 where key = :key and epoch = :epoch and status = 'running'`
const releaseAll = statement('release-all-tasks')`update task set lease_until = 0 where status = 'running'`
const lockTask = statement<TaskRow>('lock-task', shape)`select ${columns} from task where key = :key ${forUpdate}`
const setStatus = statement<TaskRow>('set-task-status', shape)`
  update task set status = :status, lease_until = 0, updated_at = :now where key = :key returning ${columns}`

// Another task that replays them waits, and then finds them gone. Locked in one order by all tasks, so that no two deadlock.
const lockDead = statement<DeliveryKey>('lock-dead')`
  select listed.endpoint, listed.message
    from (select * from ${rowsOf(':letters', 'unordered', deliveryFields)} order by endpoint, message) as listed
    ${probe('dead', 'dead.endpoint = listed.endpoint and dead.message = listed.message', forUpdate)}`

/** Long work that is done in steps. */
export function tasks(port: Port): Methods<Tasks> {
  return {
    *createTask({ app, work, data }) {
      const values = { app, type: work.type, input: toJson(work.input), data: toJson(data) }
      const row = yield* port.transaction(function* (sql) {
        const made = yield* insertNew(sql, 'qtask', insertTask, () => values)
        yield* sql.taskAdded()
        return made
      })
      return toTask(row)
    },

    *findTask(id) {
      const key = decodeKey('qtask', id)
      const row = key === undefined ? undefined : yield* port.first(selectTask, { key })
      return row?.id === id ? toTask(row) : undefined
    },

    *listTasks({ after, order, limit }) {
      return (yield* port.all(selectTasks[order], { after: after ?? listStart(order), limit })).map(toTask)
    },

    *takeTask(leaseMs, regions = null) {
      const { find, lease: take } = regions === null ? anyTask : taskOfRegions
      const lease = { lease_ms: leaseMs, ...(regions !== null && { regions }) }
      // Reads first, because the usual answer is "none" and needs no write lock.
      if (!(yield* port.relaxed.any(find, lease))) return undefined
      const row = yield* port.relaxed.transaction((sql) => sql.first(take, lease))
      return row && { ...toTask(row), epoch: row.epoch }
    },

    // A step that a crash of the server undoes is lost together with its cursor, and done again.
    *advanceTask({ key, epoch }, step) {
      const { erase, audit, forgetSamplesOf } = step
      const transaction = erase || audit || forgetSamplesOf ? port.erase : port.relaxed.transaction
      return yield* transaction(function* (sql): Work<StepDone | 'lost'> {
        if (!(yield* sql.any(lockLeased, { key, epoch }))) return 'lost'
        const replayed = yield* requeue(sql, step.onlyDead ? yield* stillDead(sql, step.replay) : step.replay)
        const purged = step.purge.length === 0 ? [] : yield* sql.all(deleteDead, { letters: keysOf(step.purge) })
        const erased = erase && (yield* eraseSubjects(sql, erase))
        const samples = forgetSamplesOf === undefined ? undefined : yield* forgetSamples(sql, forgetSamplesOf)
        const done = {
          replayed: replayed.length,
          purged: purged.length,
          ...(erased && { erased }),
          ...(samples !== undefined && { samples }),
        }
        const { cursor, status } = step
        const pauseMs = status === 'running' ? step.restMs(done) : 0
        const leaseMs = status === 'running' && pauseMs === 0 ? step.leaseMs : 0
        const saved = { cursor: toJson(cursor), status, data: toJson(step.data(done)) }
        yield* sql.run(saveStep, { key, ...saved, lease_ms: leaseMs, pause_ms: pauseMs })
        if (audit) yield* appendAudit(sql, port.context, audit)
        return done
      })
    },

    releaseTask: ({ key, epoch }) => port.relaxed.run(releaseLeased, { key, epoch }),

    *commandTask(id, command) {
      const key = decodeKey('qtask', id)
      if (key === undefined) return undefined
      return yield* port.transaction(function* (sql): Work<Task | 'ended' | undefined> {
        const row = yield* sql.first(lockTask, { key })
        if (row?.id !== id) return undefined
        const status = statusAfter(row.status, command)
        if (status === undefined) return 'ended'
        if (status === row.status) return toTask(row)
        if (status === 'running') yield* sql.taskAdded()
        return toTask((yield* sql.first(setStatus, { key, status })) as TaskRow)
      })
    },
  }
}

/** Ends the leases of all tasks: for the process that has just proved that it alone owns the file. */
export function* releaseAllTasks(sql: Sql): Work<void> {
  yield* sql.run(releaseAll)
}

function* stillDead(sql: Transaction, letters: readonly DeliveryKey[]): Work<DeliveryKey[]> {
  return letters.length === 0 ? [] : yield* sql.all(lockDead, { letters: keysOf(letters) })
}

function toTask({ type, input, epoch: _epoch, ...row }: TaskRow): Task {
  return { ...row, work: { type, input } as TaskWork }
}
