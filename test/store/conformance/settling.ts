import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PendingRow } from '../../../src/store/store.ts'
import { assertRemaining, begin, inTime, longMs, noEffects, type Open } from './harness.ts'

export function settling(open: Open): void {
  test('a delivered row is gone, and its attempt is history', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const settlement = world.settlement(endpoint, row, { state: 'delivered' })
    assert.equal(await world.settle(worker, settlement), 'settled')
    assert.deepEqual(await world.rows(endpoint), [])
    const [attempt] = await world.store.attemptsOf(row.message)
    const { at, ...rest } = attempt ?? assert.fail('no attempt was recorded')
    const { id, durationMs, status, code, error, response } = settlement.attempt
    const ours = { id, durationMs, status, code, error, response, responseHeaders: null, timings: null }
    const about = { message: row.message, endpoint: endpoint.key, n: 1, nextAt: null, trigger: 'scheduled' }
    assert.deepEqual(rest, { ...ours, ...about })
    // By the store's clock it began 30 ms before it was settled, at or after the row was due.
    assert(at >= row.dueAt - 30 && at < row.dueAt + 60_000)
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 1, attempts: 1 })
  })

  test('a failed delivery waits as a timed row that remembers its age and its attempts', (t) =>
    inTime(t, open, async (world, ms) => {
      const endpoint = await world.endpoint(await world.application())
      const { worker, row } = await world.owningOne(endpoint)
      await world.pass(50)
      await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: ms - 0.5 }))
      assert.deepEqual(await world.rows(endpoint, 0), [])
      assert.deepEqual(await world.rows(endpoint, 1), [])
      await world.pass(ms + 20)
      const waiting = await world.head(endpoint, 1)
      assert.deepEqual([waiting.message, waiting.attempts, waiting.priorAttempts], [row.message, 1, 0])
      assert(waiting.ageMs > ms + 50, `${waiting.ageMs} ms old`)
      const [attempt] = await world.store.attemptsOf(row.message)
      assert(attempt)
      assert.equal(attempt.nextAt, waiting.dueAt)
      // The attempt began 30 ms before it was settled; the wait is counted from there on and never rounded down.
      assert(waiting.dueAt - attempt.at >= ms + 29.5, `${waiting.dueAt - attempt.at} ms after the attempt began`)
      assert.deepEqual([...(attempt.response ?? [])], [0, 255, 10])
      assert.equal(attempt.error, 'the receiver answered 503')
    }))

  test('attempts are numbered on, and a retry that succeeds ends the delivery', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 }))
    await world.pass(5)
    const second = await world.head(endpoint, 1)
    await world.settle(worker, world.settlement(endpoint, second, { state: 'waiting', waitMs: 0 }))
    await world.pass(5)
    const third = await world.head(endpoint, 1)
    await world.settle(worker, world.settlement(endpoint, third, { state: 'delivered' }))
    const attempts = await world.store.attemptsOf(row.message)
    assert.deepEqual(
      attempts.map(({ n, code }) => [n, code]),
      [
        [1, 'refused'],
        [2, 'refused'],
        [3, 'delivered'],
      ],
    )
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 1, attempts: 3 })
  })

  test('an attempt that Sluice gave up is numbered and recorded, and counts as one before', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const givenUp = (row: PendingRow) => {
      const settlement = world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 })
      return { ...settlement, attempt: { ...settlement.attempt, status: 0, code: 'aborted' as const } }
    }
    // The last of them is settled twice, as after an answer that was lost.
    await world.settle(worker, givenUp(row))
    await world.pass(5)
    const again = givenUp(await world.head(endpoint, 1))
    await world.settle(worker, again)
    await world.settle(worker, again)
    await world.pass(5)
    const waiting = await world.head(endpoint, 1)
    assert.deepEqual([waiting.attempts, waiting.priorAttempts], [0, 2])
    await world.settle(worker, world.settlement(endpoint, waiting, { state: 'dead', reason: 'exhausted' }))
    assert.equal((await world.store.findDead(endpoint.key, row.message))?.attempts, 1)
    const attempts = await world.store.attemptsOf(row.message)
    assert.deepEqual(
      attempts.map(({ n, code }) => [n, code]),
      [
        [1, 'aborted'],
        [2, 'aborted'],
        [3, 'refused'],
      ],
    )
  })

  test('a delivery that ends badly becomes a dead letter with its last error and response', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
    assert.deepEqual(await world.rows(endpoint), [])
    const letter = await world.store.findDead(endpoint.key, row.message)
    assert(letter?.response)
    const { diedAt, response, ...rest } = letter
    assert.deepEqual(rest, {
      app: endpoint.app,
      endpoint: endpoint.key,
      message: row.message,
      reason: 'exhausted',
      attempts: 1,
      status: 503,
      code: 'refused',
      error: 'the receiver answered 503',
    })
    assert.deepEqual([...response], [0, 255, 10])
    assert(diedAt >= row.dueAt && diedAt < row.dueAt + 60_000)
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 1, messages: 1, attempts: 1 })
  })

  test('a replayed delivery goes on numbering, is marked as manual and dies again in place', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
    const at = row.dueAt
    const columns = 'endpoint, class, due_at, message, since, attempts, prior_attempts'
    await world.harness.sql(
      `insert into pending (${columns}) values (${endpoint.key}, 2, ${at}, ${row.message}, ${at}, 0, 1)`,
    )
    const replayed = await world.head(endpoint, 2)
    await world.settle(worker, world.settlement(endpoint, replayed, { state: 'dead', reason: 'aged' }))
    const attempts = await world.store.attemptsOf(row.message)
    assert.deepEqual(
      attempts.map(({ n, trigger }) => [n, trigger]),
      [
        [1, 'scheduled'],
        [2, 'manual'],
      ],
    )
    assert.equal((await world.store.findDead(endpoint.key, row.message))?.reason, 'aged')
    assert.equal((await world.store.counts()).dead, 1)
  })

  test('settling the same thing again changes nothing', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const verdicts = [
      { state: 'delivered' },
      { state: 'waiting', waitMs: longMs },
      { state: 'dead', reason: 'aged' },
    ] as const
    const worker = await world.join()
    const settlements = []
    for (const verdict of verdicts) {
      const endpoint = await world.endpoint(app)
      await world.publish([endpoint])
      settlements.push(world.settlement(endpoint, await world.head(endpoint), verdict))
    }
    assert.equal(await world.store.settle(worker, settlements, noEffects), 'settled')
    const once = await world.store.counts()
    assert.deepEqual(once, { pending: 1, dead: 1, messages: 3, attempts: 3 })
    await world.pass(5)
    assert.equal(await world.store.settle(worker, settlements, noEffects), 'settled')
    assert.deepEqual(await world.store.counts(), once)
  })

  test('a late copy of a settlement does not undo what happened since', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const first = world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 })
    await world.settle(worker, first)
    await world.pass(5)
    const retry = await world.head(endpoint, 1)
    await world.settle(worker, world.settlement(endpoint, retry, { state: 'delivered' }))
    await world.settle(worker, first)
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 1, attempts: 2 })
  })

  test('of two records of one attempt the first stays', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const first = world.settlement(endpoint, row, { state: 'delivered' })
    await world.settle(worker, first)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
    const attempts = await world.store.attemptsOf(row.message)
    assert.deepEqual(
      attempts.map((attempt) => attempt.id),
      [first.attempt.id],
    )
    assert.equal(await world.store.findDead(endpoint.key, row.message), undefined)
  })

  test('a batch is settled whole or not at all', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second] = [await world.endpoint(app), await world.endpoint(app)]
    const worker = await world.join()
    await world.publish([first, second])
    const good = world.settlement(first, await world.head(first), { state: 'delivered' })
    const other = world.settlement(second, await world.head(second), { state: 'waiting', waitMs: longMs })
    const bad = { ...other, attempt: { ...other.attempt, code: null as never } }
    const before = await world.store.counts()
    await assert.rejects(world.settle(worker, good, bad))
    assert.deepEqual(await world.store.counts(), before)
    assert.equal(await world.settle(worker, good, other), 'settled')
  })

  test('a large batch of mixed verdicts settles each row by its own verdict', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    const publication = await world.publication([endpoint])
    await world.store.publish(Array.from({ length: 99 }, () => publication))
    const settlements = (await world.rows(endpoint)).map((row, i) => {
      if (i % 3 === 0) return world.settlement(endpoint, row, { state: 'delivered' })
      if (i % 3 === 1) return world.settlement(endpoint, row, { state: 'waiting', waitMs: longMs })
      return world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' })
    })
    await world.store.settle(worker, settlements, noEffects)
    assert.deepEqual(await world.store.counts(), { pending: 33, dead: 33, messages: 99, attempts: 99 })
    const dead = settlements[2]?.row.message as number
    assert(await world.store.findDead(endpoint.key, dead))
    const [due] = await world.store.readDue([{ endpoint: endpoint.key, class: 1, after: null, limit: 1 }])
    assertRemaining(due?.nextInMs, longMs)
  })

  test('of a batch of delivered ones, the answers of those that no longer wait are not kept', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    const publication = await world.publication([endpoint])
    await world.store.publish(Array.from({ length: 3 }, () => publication))
    const response = new Uint8Array([0, 255, 10])
    const settlements = (await world.rows(endpoint)).map((row) => {
      const { attempt, ...rest } = world.settlement(endpoint, row, { state: 'delivered' })
      return { ...rest, attempt: { ...attempt, response, responseHeaders: '{"server":"a"}' } }
    })
    const [first, gone, last] = settlements.map(({ row }) => row.message) as [number, number, number]
    await world.harness.sql(`delete from pending where message = ${gone}`)
    assert.equal(await world.store.settle(worker, settlements, noEffects), 'settled')
    for (const message of [first, gone, last]) {
      const [attempt] = await world.store.attemptsOf(message)
      assert.deepEqual([attempt?.code, attempt?.n], ['delivered', 1])
      assert.deepEqual([...(attempt?.response ?? [])], message === gone ? [] : [...response])
      assert.equal(attempt?.responseHeaders?.server, message === gone ? undefined : 'a')
    }
    assert.equal((await world.store.counts()).pending, 0)
  })

  test('an endpoint that is gone is disabled for good, and what waits for it stays', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.publish([endpoint])
    const before = await world.store.subscriptions(endpoint.app)
    const settings: unknown[] = []
    world.store.watch({ rows() {}, lanes() {}, settings: (endpoints) => void settings.push(endpoints) })
    const settlement = world.settlement(endpoint, row, { state: 'dead', reason: 'gone' })
    await world.store.settle(worker, [settlement], {
      holds: [],
      disable: [{ endpoint: endpoint.key, reason: 'gone' }],
      health: [],
    })
    assert.deepEqual(settings, [[endpoint.key]])

    const found = await world.store.findEndpoint(endpoint.app, endpoint.id)
    assert.deepEqual([found?.disabled, found?.disabledReason], [true, 'gone'])
    const after = await world.store.subscriptions(endpoint.app)
    assert(before && after && after.version > before.version)
    await world.release(worker, endpoint)
    await world.assertNothingToClaim(worker)
    assert.equal((await world.store.counts()).pending, 1)

    const enabled = await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: false })
    assert.equal(enabled?.disabledReason, null)
    await world.claim(worker)
  })

  test('an endpoint that an operator disabled stays so when it also turns out to be gone', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: true })
    await world.store.settle(worker, [], {
      holds: [],
      disable: [{ endpoint: endpoint.key, reason: 'gone' }],
      health: [],
    })
    assert.equal((await world.store.findEndpoint(endpoint.app, endpoint.id))?.disabledReason, 'operator')
  })
}
