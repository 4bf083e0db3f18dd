import { decodeKey } from '../../domain/ids.ts'
import { longestRestMs, statusAfter, type Task } from '../../domain/task.ts'
import type { DeliveryKey } from '../browsing.ts'
import * as rows from '../rows/task.ts'
import { toJson } from '../sql/json.ts'
import type { HeldTask, StepDone, Tasks } from '../tasks.ts'
import type { Connection, Synchronous } from './connection.ts'
import { replayer, tell, type Woken } from './replaying.ts'
import { fromJson, type Stored } from './rows.ts'

const insertTask = `
  insert into task (key, id, app, type, status, input, data, created_at, updated_at)
  values (?, ?, ?, ?, 'running', ?, ?, ?, ?) on conflict (key) do nothing`
const selectTask = 'select * from task where key = ?'
const selectTasks = {
  ascending: 'select * from task where key > ? order by key limit ?',
  descending: 'select * from task where key < ? order by key desc limit ?',
}
// Leans on task_running. What reaches further than it is long was written before the clock was set back.
const selectFree = `
  select key from task
  where status = 'running' and (lease_until <= ?1 or lease_until > ?1 + ?2)
    and (rest_until <= ?1 or rest_until > ?1 + ${longestRestMs})
  order by lease_until limit 1`
const takeTask = 'update task set epoch = epoch + 1, lease_until = ?2 where key = ?1 returning *'
const saveStep = `
  update task set cursor = ?3, status = ?4, data = ?5, lease_until = ?6, rest_until = ?7, updated_at = ?8
  where key = ?1 and epoch = ?2 and status = 'running'`
const selectHeld = `select 1 from task where key = ? and epoch = ? and status = 'running'`
const freeTask = `update task set lease_until = 0 where key = ? and epoch = ? and status = 'running'`
const setStatus = 'update task set status = ?2, lease_until = 0, updated_at = ?3 where key = ?1 returning *'
const freeAll = `update task set lease_until = 0 where status = 'running'`
const selectDead = 'select 1 from dead where endpoint = ? and message = ?'
const deleteDead = 'delete from dead where endpoint = ? and message = ?'

type TaskRow = Stored<rows.TaskRow, 'input' | 'cursor' | 'data'>

/** Long work. */
export function tasks(connection: Connection): Synchronous<Tasks> {
  const insert = connection.prepare(insertTask)
  const byKey = connection.prepare<TaskRow>(selectTask)
  const up = connection.prepare<TaskRow>(selectTasks.ascending)
  const down = connection.prepare<TaskRow>(selectTasks.descending)
  const free = connection.prepare<{ key: number }>(selectFree)
  const take = connection.prepare<TaskRow>(takeTask)
  const held = connection.prepare<unknown>(selectHeld)
  const save = connection.prepare(saveStep)
  const release = connection.prepare(freeTask)
  const change = connection.prepare<TaskRow>(setStatus)
  const dead = connection.prepare<unknown>(selectDead)
  const purge = connection.prepare(deleteDead)
  const replay = replayer(connection)

  return {
    createTask({ app, work, data }): Task {
      const now = connection.now()
      const { type, input } = work
      const identity = connection.transaction(() =>
        connection.insertNew('qtask', now, ({ key, id }) => {
          return insert.run(key, id, app, type, JSON.stringify(input), JSON.stringify(data), now, now).changes
        }),
      )
      return { ...identity, app, work, data, status: 'running', cursor: null, createdAt: now, updatedAt: now }
    },

    findTask(id): Task | undefined {
      const key = decodeKey('qtask', id)
      const row = key === undefined ? undefined : byKey.get(key)
      return row?.id === id ? toTask(row) : undefined
    },

    listTasks({ after, order, limit }): Task[] {
      const rows =
        order === 'ascending' ? up.all(after ?? -1, limit) : down.all(after ?? Number.MAX_SAFE_INTEGER, limit)
      return rows.map(toTask)
    },

    takeTask(leaseMs): HeldTask | undefined {
      // Asking comes first, because the usual answer is "nothing" and needs no write lock.
      if (free.get(connection.now(), leaseMs) === undefined) return undefined
      return connection.transaction(() => {
        const now = connection.now()
        const found = free.get(now, leaseMs)
        const row = found && take.get(found.key, now + leaseMs)
        return row && { ...toTask(row), epoch: row.epoch }
      })
    },

    advanceTask({ key, epoch }, step): StepDone | 'lost' {
      let woken: Woken | undefined
      const answer = connection.transaction(() => {
        if (held.get(key, epoch) === undefined) return 'lost'
        const now = connection.now()
        const isWanted = ({ endpoint, message }: DeliveryKey) => dead.get(endpoint, message) !== undefined
        woken = replay(step.onlyDead ? step.replay.filter(isWanted) : step.replay, now)
        const purged = step.purge.reduce((sum, d) => sum + purge.run(d.endpoint, d.message).changes, 0)
        const done = { replayed: woken.queued.length, purged }
        const restMs = step.status === 'running' ? step.restMs(done) : 0
        const leaseUntil = step.status === 'running' && restMs === 0 ? now + step.leaseMs : 0
        const data = JSON.stringify(step.data(done))
        save.run(key, epoch, toJson(step.cursor), step.status, data, leaseUntil, now + restMs, now)
        return done
      })
      if (woken) tell(connection, woken)
      return answer
    },

    releaseTask({ key, epoch }): void {
      release.run(key, epoch)
    },

    orderTask(id, order): Task | 'ended' | undefined {
      const key = decodeKey('qtask', id)
      return connection.transaction(() => {
        const row = key === undefined ? undefined : byKey.get(key)
        if (row?.id !== id) return undefined
        const status = statusAfter(row.status, order)
        if (status === undefined) return 'ended'
        return toTask(status === row.status ? row : (change.get(row.key, status, connection.now()) as TaskRow))
      })
    },
  }
}

/** Frees every task: for the process that has just proved that it alone owns the file. */
export function freeAllTasks(connection: Connection): void {
  connection.prepare(freeAll).run()
}

function toTask(row: TaskRow): Task {
  const { input, cursor, data } = row
  return rows.toTask({ ...row, input: JSON.parse(input), cursor: fromJson(cursor), data: JSON.parse(data) })
}
