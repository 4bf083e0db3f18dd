import assert from 'node:assert/strict'
import { test } from 'node:test'
import { replay, timed } from '../../../src/domain/delivery.ts'
import { begin, longMs, type Open } from './harness.ts'

export function replaying(open: Open): void {
  test('a replayed dead letter is queued again and is a dead letter no longer', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const delivery = { endpoint: endpoint.key, message: row.message }
    await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 }))
    await world.pass(5)
    const retry = await world.head(endpoint, timed)
    await world.settle(worker, world.settlement(endpoint, retry, { state: 'dead', reason: 'exhausted' }))
    await world.pass(20)

    assert.deepEqual(await world.store.replay([delivery]), [delivery])
    assert.equal(await world.store.findDead(endpoint.key, row.message), undefined)
    const replayed = await world.head(endpoint, replay)
    assert.deepEqual([replayed.message, replayed.attempts, replayed.priorAttempts], [row.message, 0, 2])
    assert(replayed.ageMs < 5000, `${replayed.ageMs} ms old`)
    assert.deepEqual(await world.store.findReplaying([delivery]), [delivery])

    await world.settle(worker, world.settlement(endpoint, replayed, { state: 'delivered' }))
    const last = (await world.store.attemptsOf(row.message)).at(-1)
    assert.deepEqual([last?.n, last?.trigger], [3, 'manual'])
    assert.deepEqual(await world.store.findReplaying([delivery]), [])
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 1, attempts: 3 })
  })

  test('a delivery that is replayed twice is queued once', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const delivery = { endpoint: endpoint.key, message: row.message }
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' }))
    const answers = await Promise.all([world.store.replay([delivery]), world.store.replay([delivery])])
    assert.equal(answers.flat().length, 1)
    assert.deepEqual(await world.store.replay([delivery]), [])
    assert.equal((await world.store.counts()).pending, 1)
  })

  test('a dead letter of an endpoint that is gone stays', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [here, gone] = [await world.endpoint(app), await world.endpoint(app)]
    const deliveries = []
    for (const endpoint of [here, gone]) {
      const { worker, row } = await world.owningOne(endpoint)
      await world.settle(worker, world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
      deliveries.push({ endpoint: endpoint.key, message: row.message })
    }
    assert.equal(await world.store.deleteEndpoint(app.key, gone.key), true)
    assert.deepEqual(await world.store.replay(deliveries), deliveries.slice(0, 1))
    const { pending, dead } = await world.store.counts()
    assert.deepEqual([pending, dead], [1, 1])
    assert.equal((await world.store.findDead(gone.key, deliveries[1]?.message ?? 0))?.reason, 'exhausted')
  })

  test('a delivery that is about to be sent is left alone', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const delivery = { endpoint: endpoint.key, message: row.message }
    assert.deepEqual(await world.store.replay([delivery]), [])
    assert.equal((await world.store.findQueued(delivery))?.class, 0)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: 500 }))
    assert.deepEqual(await world.store.replay([delivery]), [])
    assert.deepEqual(await world.store.counts(), { pending: 1, dead: 0, messages: 1, attempts: 1 })
  })

  test('a delivery that waits for a later attempt is brought forward instead of being sent twice', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const delivery = { endpoint: endpoint.key, message: row.message }
    await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: longMs }))
    assert.deepEqual(await world.store.replay([delivery]), [delivery])
    assert.equal((await world.store.counts()).pending, 1)
    const replayed = await world.head(endpoint, replay)
    assert.deepEqual([replayed.attempts, replayed.priorAttempts], [0, 1])

    const later = await world.publish([endpoint], { delayMs: longMs })
    const delayed = { endpoint: endpoint.key, message: later.key }
    assert.deepEqual(await world.store.replay([delayed]), [delayed])
    assert.equal((await world.store.counts()).pending, 2)
    assert.equal((await world.rows(endpoint, replay)).length, 2)
  })

  test('a message can be replayed to an endpoint that it was not accepted for', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const { key } = await world.publish([endpoint])
    const late = await world.endpoint(app)
    const delivery = { endpoint: late.key, message: key }
    assert.deepEqual(await world.store.replay([delivery]), [delivery])
    assert.equal((await world.head(late, replay)).message, key)
    const worker = await world.join()
    await world.claim(worker, 2)
  })

  test('replaying wakes a lane without a worker, and notifies the watcher', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' }))
    await world.release(worker, endpoint)
    await world.assertNothingToClaim(worker)
    const rows: unknown[] = []
    world.store.watch({ rows: (...told) => void rows.push(told), lanes() {}, settings() {} })
    await world.store.replay([{ endpoint: endpoint.key, message: row.message }])
    assert.deepEqual(rows[0], [[endpoint.key], replay])
    await world.claim(worker)
  })

  test('an expunged message has no body, waits nowhere and is never sent again', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second, third] = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    const { key, id } = await world.publish([first, second, third])
    const kept = await world.publish([first])
    const worker = await world.join()
    const retried = await world.head(second)
    await world.settle(worker, world.settlement(second, retried, { state: 'waiting', waitMs: longMs }))
    const done = await world.head(third)
    await world.settle(worker, world.settlement(third, done, { state: 'delivered' }))
    await world.store.replay([{ endpoint: third.key, message: key }])
    assert.equal((await world.store.counts()).pending, 4)

    const expunged: unknown[] = []
    world.store.watch({ rows() {}, lanes() {}, settings() {}, expunged: (keys) => void expunged.push(keys) })
    await world.store.expungeMessages([key])
    assert.deepEqual(expunged[0], [key])
    const message = await world.store.findMessage(app.key, id)
    assert.deepEqual([message?.expunged, message?.body.byteLength], [true, 0])
    assert.equal((await world.store.counts()).pending, 1)
    assert.deepEqual(
      (await world.store.loadMessages([key, kept.key])).map((outgoing) => outgoing.key),
      [kept.key],
    )
    assert.deepEqual(await world.store.replay([{ endpoint: first.key, message: key }]), [])
    // An attempt that was under way does not bring an expunged message back.
    await world.settle(worker, world.settlement(first, { ...retried }, { state: 'waiting', waitMs: 0 }))
    assert.equal((await world.store.counts()).pending, 1)
    await world.store.expungeMessages([key])
    await world.store.expungeMessages([1])
  })

  test('a delivery is found in whatever queue it waits', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    const first = await world.publish([endpoint])
    await world.publish([endpoint])
    const find = (message: number) => world.store.findQueued({ endpoint: endpoint.key, message })
    assert.equal((await find(first.key))?.class, 0)
    const row = await world.head(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: longMs }))
    const waiting = await find(first.key)
    const [attempt] = await world.store.attemptsOf(first.key)
    assert.deepEqual(waiting, { class: timed, dueAt: attempt?.nextAt, attempts: 1 })
    await world.store.replay([{ endpoint: endpoint.key, message: first.key }])
    assert.equal((await find(first.key))?.class, replay)
    assert.equal(await find(1), undefined)
    const delayed = await world.publish([endpoint], { delayMs: longMs })
    assert.equal((await find(delayed.key))?.class, timed)
  })

  test('a delivery whose instant is far from that of its message is found all the same', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { key } = await world.publish([endpoint])
    await world.harness.sql('update pending set due_at = due_at + 3600000')
    assert.equal((await world.store.findQueued({ endpoint: endpoint.key, message: key }))?.class, 0)
  })

  test('a lane tells who owns it, what waits in it and until when it is held', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    assert.equal(await world.store.findLane(1), undefined)
    const idle = await world.store.findLane(endpoint.key)
    assert.deepEqual([idle?.owner, idle?.dueAt, idle?.nextTimedAt, idle?.workersAlive], [null, null, null, 0])
    const { worker } = await world.owningOne(endpoint)
    await world.publish([endpoint], { delayMs: longMs })
    await world.store.settle(worker, [], {
      holds: [{ endpoint: endpoint.key, holdMs: longMs }],
      disable: [],
      health: [],
    })
    const owned = await world.store.findLane(endpoint.key)
    assert(owned)
    assert.equal(owned.owner?.worker, worker)
    assert.equal(owned.owner?.description, 'a worker under test')
    assert(owned.owner.leaseUntil > owned.now && owned.holdUntil > owned.now)
    assert.deepEqual([owned.workersAlive, owned.stopped], [1, false])
    assert(owned.nextTimedAt !== null && owned.nextTimedAt > owned.now)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: true })
    assert.equal((await world.store.findLane(endpoint.key))?.stopped, true)
  })
}
