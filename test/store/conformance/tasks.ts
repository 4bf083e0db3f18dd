import assert from 'node:assert/strict'
import { test } from 'node:test'
import { replay } from '../../../src/domain/delivery.ts'
import type { TaskWork } from '../../../src/features/tasks/rules.ts'
import type { LeasedTask, TaskStep } from '../../../src/features/tasks/store.ts'
import { begin, inTime, longMs, type Open, type World } from './harness.ts'

const work: TaskWork = { type: 'event-type.aggregate', input: {} }
const idleStep: TaskStep = {
  replay: [],
  purge: [],
  cursor: null,
  status: 'running',
  leaseMs: longMs,
  restMs: () => 0,
  data: () => ({}),
}

export function tasks(open: Open): void {
  test('a new or resumed task is signalled to the watcher', async (t) => {
    const { store } = await begin(t, open)
    let signals = 0
    store.watch({ rows() {}, lanes() {}, settings() {}, tasks: () => void signals++ })
    const { id } = await store.createTask({ app: null, work, data: {} })
    assert.equal(signals, 1)
    await store.commandTask(id, 'pause')
    assert.equal(signals, 1)
    await store.commandTask(id, 'resume')
    assert.equal(signals, 2)
  })

  test('a task is kept as it was made, and found by its whole id', async (t) => {
    const { store } = await begin(t, open)
    const input = { endpoint: 7, since: 1, until: 2 }
    const task = await store.createTask({ app: 5, work: { type: 'endpoint.recover', input }, data: { replayed: 0 } })
    assert.match(task.id, /^qtask_/)
    assert.deepEqual([task.app, task.work.input, task.status, task.cursor], [5, input, 'running', null])
    assert.deepEqual(await store.findTask(task.id), task)
    const last = task.id.endsWith('0') ? '1' : '0'
    assert.equal(await store.findTask(task.id.slice(0, -1) + last), undefined)
    assert.equal(await store.findTask('nonsense'), undefined)
  })

  test('tasks are listed by key in both orders', async (t) => {
    const { store } = await begin(t, open)
    const keys: number[] = []
    for (let i = 0; i < 3; i++) keys.push((await store.createTask({ app: null, work, data: {} })).key)
    const list = async (order: 'ascending' | 'descending', after: number | null, limit = 10) =>
      (await store.listTasks({ order, after, limit })).map((task) => keys.indexOf(task.key))
    assert.deepEqual(await list('ascending', null), [0, 1, 2])
    assert.deepEqual(await list('descending', null, 2), [2, 1])
    assert.deepEqual(await list('ascending', keys[0] as number), [1, 2])
    assert.deepEqual(await list('descending', keys[1] as number), [0])
  })

  test('a task is held by one at a time, until it is given back or the lease runs out', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    assert.equal(await store.takeTask(longMs), undefined)
    const { id } = await store.createTask({ app: null, work, data: {} })
    const first = await take(world, longMs)
    assert.equal(first.id, id)
    assert.equal(await store.takeTask(longMs), undefined)
    await store.releaseTask(first)
    const second = await take(world, 50)
    await world.pass(80)
    const third = await take(world, longMs)
    assert(second.epoch < third.epoch)
    // The worker that held it before can neither continue it nor give it back.
    assert.equal(await store.advanceTask(second, { ...idleStep, cursor: [1] }), 'lost')
    await store.releaseTask(second)
    assert.equal(await store.takeTask(longMs), undefined)
    assert.equal((await store.findTask(id))?.cursor, null)
  })

  test('a step does its work and saves where it got to', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    await world.publish([endpoint])
    await world.publish([endpoint])
    const rows = await world.rows(endpoint)
    const dead = rows.map((row) => world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
    await world.settle(worker, ...dead)
    const [first, second] = rows.map((row) => ({ endpoint: endpoint.key, message: row.message }))
    assert(first && second)

    const { id } = await store.createTask({ app: endpoint.app, work, data: {} })
    const held = await take(world, longMs)
    const done = await store.advanceTask(held, {
      ...idleStep,
      replay: [first],
      purge: [second, second],
      cursor: [3, 4],
      data: (done) => ({ ...done, seen: 2 }),
    })
    assert.deepEqual(done, { replayed: 1, purged: 1 })
    const saved = await store.findTask(id)
    assert.deepEqual([saved?.cursor, saved?.data], [[3, 4], { replayed: 1, purged: 1, seen: 2 }])
    assert.deepEqual(await store.counts(), { pending: 1, dead: 0, messages: 2, attempts: 2 })

    await store.advanceTask(held, { ...idleStep, status: 'finished', data: () => ({ answer: 42 }) })
    const finished = await store.findTask(id)
    assert.deepEqual([finished?.status, finished?.data], ['finished', { answer: 42 }])
    assert.equal(await store.takeTask(longMs), undefined)
    assert.equal(await store.advanceTask(held, idleStep), 'lost')
  })

  test('a dead letter that two steps have read is replayed by one of them', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    await world.publish([endpoint])
    const [row] = await world.rows(endpoint)
    assert(row)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
    const letter = { endpoint: endpoint.key, message: row.message }
    await store.createTask({ app: endpoint.app, work, data: {} })
    await store.createTask({ app: endpoint.app, work, data: {} })
    const steps = [await take(world, longMs), await take(world, longMs)]
    const step = { ...idleStep, replay: [letter], onlyDead: true }
    const replayed = async (held: LeasedTask | undefined) => store.advanceTask(held as LeasedTask, step)
    assert.deepEqual(await replayed(steps[0]), { replayed: 1, purged: 0 })
    const [again] = await world.rows(endpoint, replay)
    assert(again)
    await world.settle(worker, world.settlement(endpoint, again, { state: 'delivered' }))
    assert.deepEqual(await replayed(steps[1]), { replayed: 0, purged: 0 })
    assert.equal((await store.counts()).pending, 0)
  })

  test('no worker takes a resting task before its rest ends, also when the clock is set back', (t) =>
    inTime(t, open, async (world, ms) => {
      const { store } = world
      await store.createTask({ app: null, work, data: {} })
      const held = await take(world, longMs)
      assert.notEqual(await store.advanceTask(held, { ...idleStep, cursor: [1], restMs: () => ms }), 'lost')
      assert.equal(await store.takeTask(longMs), undefined)
      await world.pass(ms + 50)
      const next = await take(world, longMs)
      assert.deepEqual(next.cursor, [1])
      await store.advanceTask(next, { ...idleStep, restMs: () => ms })
      await world.harness.sql('update task set rest_until = rest_until + 3600000')
      await take(world, longMs)
    }))

  test('no worker takes a paused task before it is resumed, and then it continues where it was', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const { id } = await store.createTask({ app: null, work, data: {} })
    const held = await take(world, longMs)
    await store.advanceTask(held, { ...idleStep, cursor: [1] })
    for (let times = 0; times < 2; times++) {
      const paused = await store.commandTask(id, 'pause')
      assert(typeof paused === 'object')
      assert.deepEqual([paused.status, paused.cursor], ['paused', [1]])
    }
    // A worker in the middle of a step records nothing.
    assert.equal(await store.advanceTask(held, { ...idleStep, cursor: [2] }), 'lost')
    await store.releaseTask(held)
    assert.equal(await store.takeTask(longMs), undefined)
    const resumed = await store.commandTask(id, 'resume')
    assert(typeof resumed === 'object')
    assert.deepEqual([resumed.status, resumed.cursor], ['running', [1]])
    assert.deepEqual((await take(world, longMs)).cursor, [1])
  })

  test('a task that is cancelled or has ended takes no orders any more', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const { id } = await store.createTask({ app: null, work, data: {} })
    await store.commandTask(id, 'pause')
    const cancelled = await store.commandTask(id, 'cancel')
    assert(typeof cancelled === 'object')
    assert.equal(cancelled.status, 'cancelled')
    assert.deepEqual(await store.commandTask(id, 'cancel'), cancelled)
    assert.equal(await store.commandTask(id, 'resume'), 'ended')
    assert.equal(await store.takeTask(longMs), undefined)
    const other = await store.createTask({ app: null, work, data: {} })
    await store.advanceTask(await take(world, longMs), { ...idleStep, status: 'finished' })
    for (const order of ['pause', 'resume', 'cancel'] as const) {
      assert.equal(await store.commandTask(other.id, order), 'ended')
    }
    assert.equal(await store.commandTask('qtask_nonsense', 'pause'), undefined)
  })

  test('a step that fails leaves nothing', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
    await world.store.createTask({ app: null, work, data: {} })
    const held = await take(world, longMs)
    const data = () => {
      throw new Error('planted')
    }
    const replay = [{ endpoint: endpoint.key, message: row.message }]
    await assert.rejects(world.store.advanceTask(held, { ...idleStep, replay, data }), /planted/)
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 1, messages: 1, attempts: 1 })
  })
}

async function take(world: World, leaseMs: number): Promise<LeasedTask> {
  return (await world.store.takeTask(leaseMs)) ?? assert.fail('no task to take')
}
