import { decodeKey } from '../../domain/ids.ts'
import { longestRestMs, statusAfter } from '../../domain/task.ts'
import type { DeliveryKey, Order } from '../browsing.ts'
import { type TaskRow, toTask } from '../rows/task.ts'
import { toJson } from '../sql/json.ts'
import type { HeldTask, StepDone, Tasks } from '../tasks.ts'
import { integers } from './arrays.ts'
import { type Database, withNewIdentity } from './database.ts'
import { requeue, tell } from './replaying.ts'
import { sqlNow, withClock } from './server-time.ts'
import { type Run, type Statement, statement } from './sessions.ts'

const taskColumns = 'key, id, app, type, status, input, cursor, data, epoch, created_at, updated_at'

const insertTask = statement(
  'insert-task',
  `
    ${withClock}
    insert into task (key, id, app, type, status, input, data, created_at, updated_at)
    select $1, $2, $3, $4, 'running', $5, $6, now, now from clock
    returning ${taskColumns}`,
)
const selectTask = statement('task', `select ${taskColumns} from task where key = $1`)
export const selectTasks: Readonly<Record<Order, Statement>> = {
  ascending: statement('tasks', `select ${taskColumns} from task where key > $1 order by key limit $2`),
  descending: statement('tasks-down', `select ${taskColumns} from task where key < $1 order by key desc limit $2`),
}
// Leans on task_running. What reaches further than it is long was written before the clock was set back.
export const takeFree = statement(
  'take-task',
  `
    ${withClock}
    update task set epoch = epoch + 1, lease_until = (select now from clock) + $1
     where key = any (array (
             select key from task
              where status = 'running'
                and (lease_until <= (select now from clock) or lease_until > (select now from clock) + $1)
                and (rest_until <= (select now from clock) or rest_until > (select now from clock) + ${longestRestMs})
              order by lease_until limit 1 for update skip locked))
    returning ${taskColumns}`,
)
const lockHeld = statement(
  'lock-task',
  `select 1 from task where key = $1 and epoch = $2 and status = 'running' for update`,
)
const saveStep = statement(
  'save-step',
  `
    update task
       set cursor = $2, status = $3, data = $4, lease_until = ${sqlNow} + $5, rest_until = ${sqlNow} + $6,
           updated_at = ${sqlNow}
     where key = $1`,
)
const lockTask = statement('lock-any-task', `select ${taskColumns} from task where key = $1 for update`)
const setStatus = statement(
  'set-task-status',
  `
    update task set status = $2, lease_until = 0, updated_at = ${sqlNow} where key = $1 returning ${taskColumns}`,
)
const freeTask = statement(
  'free-task',
  `update task set lease_until = 0 where key = $1 and epoch = $2 and status = 'running'`,
)
/** Whoever else replays them waits, and then finds that they are none any more. Taken in one order by everyone. */
export const lockDead = statement(
  'lock-dead',
  `
    select w.endpoint, w.message
      from (select * from unnest($1::bigint[], $2::bigint[]) as w (endpoint, message) order by endpoint, message) as w
     cross join lateral (
             select from dead where endpoint = w.endpoint and message = w.message limit 1 for update
           ) as d`,
)
export const purgeDead = statement(
  'purge-dead',
  `
    with found as materialized (
      select d.place
        from unnest($1::bigint[], $2::bigint[]) as w (endpoint, message)
       cross join lateral (
               select ctid as place from dead where endpoint = w.endpoint and message = w.message limit 1
             ) as d
    ), purged as (
      delete from dead where ctid = any (array (select place from found)) returning 1
    )
    select count(*) as purged from purged`,
)

/** Long work. */
export function tasks(database: Database): Tasks {
  const { durable, relaxed } = database
  return {
    createTask({ app, work, data }) {
      return withNewIdentity(database, 'qtask', async ({ key, id }) => {
        const values = [key, id, app, work.type, toJson(work.input), toJson(data)]
        const [row] = await durable.run<TaskRow>(insertTask, values)
        return toTask(row as TaskRow)
      })
    },

    async findTask(id) {
      const key = decodeKey('qtask', id)
      const [row] = key === undefined ? [] : await durable.run<TaskRow>(selectTask, [key])
      return row?.id === id ? toTask(row) : undefined
    },

    async listTasks({ after, order, limit }) {
      const start = after ?? (order === 'ascending' ? -1 : Number.MAX_SAFE_INTEGER)
      return (await durable.run<TaskRow>(selectTasks[order], [start, limit])).map(toTask)
    },

    async takeTask(leaseMs): Promise<HeldTask | undefined> {
      const [row] = await relaxed.run<TaskRow>(takeFree, [leaseMs])
      return row && { ...toTask(row), epoch: row.epoch }
    },

    // Not waiting for the disk is safe: a step lost in a crash of the server is lost with its cursor, and done again.
    async advanceTask({ key, epoch }, step) {
      let queued: Awaited<ReturnType<typeof requeue>> = []
      const answer = await relaxed.transaction(async (run): Promise<StepDone | 'lost'> => {
        if ((await run(lockHeld, [key, epoch])).length === 0) return 'lost'
        queued = await requeue(run, step.onlyDead ? await stillDead(run, step.replay) : step.replay)
        let purged = 0
        if (step.purge.length > 0) {
          const values = [integers(step.purge.map((d) => d.endpoint)), integers(step.purge.map((d) => d.message))]
          const [row] = await run<{ purged: number }>(purgeDead, values)
          purged = row?.purged ?? 0
        }
        const done = { replayed: queued.length, purged }
        const restMs = step.status === 'running' ? step.restMs(done) : 0
        const leaseMs = step.status === 'running' && restMs === 0 ? step.leaseMs : 0
        await run(saveStep, [key, toJson(step.cursor), step.status, toJson(step.data(done)), leaseMs, restMs])
        return done
      })
      tell(database, queued)
      return answer
    },

    async releaseTask({ key, epoch }) {
      await relaxed.run(freeTask, [key, epoch])
    },

    orderTask(id, order) {
      return durable.transaction(async (run) => {
        const key = decodeKey('qtask', id)
        const [row] = key === undefined ? [] : await run<TaskRow>(lockTask, [key])
        if (row?.id !== id) return undefined
        const status = statusAfter(row.status, order)
        if (status === undefined) return 'ended'
        if (status === row.status) return toTask(row)
        const [changed] = await run<TaskRow>(setStatus, [key, status])
        return toTask(changed as TaskRow)
      })
    },
  }
}

async function stillDead(run: Run, letters: readonly DeliveryKey[]): Promise<DeliveryKey[]> {
  if (letters.length === 0) return []
  return run<DeliveryKey>(lockDead, [
    integers(letters.map(({ endpoint }) => endpoint)),
    integers(letters.map(({ message }) => message)),
  ])
}
