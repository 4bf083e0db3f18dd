import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import { skipped } from '../../../src/store/delivering.ts'
import { assertRemaining, begin, type Open, type World } from './harness.ts'

const minute = 60_000

/** Publishes to a lane that keeps an order. */
async function publishInOrder(world: World, endpoint: Endpoint, orderKey = 0): Promise<number> {
  const special = [{ endpoint: endpoint.key, orderKey }]
  return (await world.publish([endpoint], { special, orderingKey: 'a' })).key
}

async function messages(world: World, endpoint: Endpoint): Promise<number[]> {
  return (await world.rows(endpoint)).map((row) => row.message)
}

export function ordering(open: Open): void {
  test('a held delivery keeps its place, with one attempt more, and says for how long', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const behind = await publishInOrder(world, endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delayed', waitMs: minute }))
    const [head, next] = await world.rows(endpoint)
    assert(head && next)
    assert.deepEqual([head.message, head.dueAt, head.attempts], [row.message, row.dueAt, 1])
    assertRemaining(head.retryInMs, minute)
    assert.deepEqual([next.message, next.retryInMs], [behind, 0])
    const [attempt] = await world.store.attemptsOf(row.message)
    assert(attempt)
    assert.deepEqual([attempt.n, attempt.nextAt === null], [1, false])
  })

  test('a delivery whose wait has just ended may be sent, whichever millisecond it is', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delayed', waitMs: 20 }))
    await world.pass(18)
    // The difference of both instants must not be taken for the mark of a row that an operator has skipped.
    for (let ms = 0; ms < 6; ms++) {
      const { retryInMs } = await world.head(endpoint)
      assert.ok(retryInMs >= 0, `${retryInMs} ms to wait`)
      await world.pass(1)
    }
    assert.equal((await world.head(endpoint)).retryInMs, 0)
  })

  test('held twice by the same settlement, it has been tried once', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const settlement = world.settlement(endpoint, row, { state: 'delayed', waitMs: minute })
    await world.settle(worker, settlement)
    await world.settle(worker, settlement)
    assert.equal((await world.head(endpoint)).attempts, 1)
    assert.equal((await world.store.attemptsOf(row.message)).length, 1)
  })

  test('a delivery whose attempt Sluice gave up keeps its place, and all its attempts', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const settlement = world.settlement(endpoint, row, { state: 'delayed', waitMs: 0 })
    const givenUp = { ...settlement, attempt: { ...settlement.attempt, status: 0, code: 'aborted' as const } }
    await world.settle(worker, givenUp)
    await world.settle(worker, givenUp)
    const head = await world.head(endpoint)
    assert.deepEqual([head.message, head.dueAt], [row.message, row.dueAt])
    assert.deepEqual([head.attempts, head.priorAttempts], [0, 1])
    await world.settle(worker, world.settlement(endpoint, head, { state: 'delayed', waitMs: 0 }))
    const after = await world.head(endpoint)
    assert.deepEqual([after.attempts, after.priorAttempts], [1, 1])
    assert.deepEqual(
      (await world.store.attemptsOf(row.message)).map(({ n, code }) => [n, code]),
      [
        [1, 'aborted'],
        [2, 'refused'],
      ],
    )
  })

  test('a blocked delivery keeps its place until an operator acts, and has no next attempt', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'blocked' }))
    const head = await world.head(endpoint)
    assert.deepEqual([head.message, head.attempts, head.retryInMs], [row.message, 1, Number.POSITIVE_INFINITY])
    assert.equal((await world.store.attemptsOf(row.message))[0]?.nextAt, null)
    assert.equal(await world.store.findDead(endpoint.key, row.message), undefined)
    const queued = await world.store.findQueued({ endpoint: endpoint.key, message: row.message })
    assert.equal(queued?.attempts, 1, 'it is found where it waits')
  })

  test('a head that is held can still be delivered, die, or be put among those that wait for their time', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    for (let i = 0; i < 3; i++) await publishInOrder(world, endpoint)
    await world.claim(worker)
    const rows = await world.rows(endpoint)
    await world.settle(
      worker,
      ...rows.map((row) => world.settlement(endpoint, row, { state: 'delayed', waitMs: minute })),
    )
    const [first, second, third] = await world.rows(endpoint)
    assert(first && second && third)
    await world.settle(
      worker,
      world.settlement(endpoint, first, { state: 'delivered' }),
      world.settlement(endpoint, second, { state: 'dead', reason: 'exhausted' }),
      { ...world.settlement(endpoint, third, { state: 'waiting', waitMs: 1 }), attempt: null },
    )
    assert.deepEqual(await world.rows(endpoint), [])
    assert.equal((await world.store.findDead(endpoint.key, second.message))?.attempts, 2)
    await world.pass(20)
    const [timed] = await world.rows(endpoint, 1)
    assert.deepEqual(
      [timed?.message, timed?.attempts, timed?.retryInMs],
      [third.message, 1, 0],
      'no attempt is counted',
    )
  })

  test('an ordered delivery comes behind all that were accepted before, whatever the clock shows', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const first = await publishInOrder(world, endpoint)
    // As if the clock had been an hour ahead when it was accepted.
    await world.harness.sql(`update pending set due_at = due_at + 3600000`)
    const keys = [first]
    for (let i = 0; i < 3; i++) keys.push(await publishInOrder(world, endpoint))
    const publication = await world.publication([endpoint], { special: [{ endpoint: endpoint.key, orderKey: 0 }] })
    for (const published of await world.store.publish(Array.from({ length: 5 }, () => publication))) {
      assert(published.state === 'accepted')
      keys.push(published.key)
    }
    assert.deepEqual(await messages(world, endpoint), keys)
  })

  test('messages of one group are queued in their order behind one whose key is greater', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await publishInOrder(world, endpoint)
    // As if another process had made a greater key in the same millisecond.
    await world.harness.sql(`update pending set message = message + 1000000000, due_at = due_at + 50`)
    const publication = await world.publication([endpoint], { special: [{ endpoint: endpoint.key, orderKey: 0 }] })
    const published = await world.store.publish(Array.from({ length: 5 }, () => publication))
    const keys = published.map((each) => (each.state === 'accepted' ? each.key : 0))
    assert.deepEqual((await messages(world, endpoint)).slice(1), keys)
    const together = await world.store.publishTogether([publication, publication, publication], null)
    assert(together.state === 'accepted')
    const batch = together.messages.map(({ key }) => key)
    assert.deepEqual((await messages(world, endpoint)).slice(1), [...keys, ...batch])
  })

  test('retrying the first delivery sends it at once, and its attempts and age start from 0', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delayed', waitMs: 1 }))
    await world.pass(20)
    await world.settle(worker, world.settlement(endpoint, await world.head(endpoint), { state: 'blocked' }))
    const message = row.message
    assert.deepEqual(await world.store.commandFront(endpoint.key, null, 'retry'), { state: 'stored', message })
    const head = await world.head(endpoint)
    assert.deepEqual([head.attempts, head.priorAttempts, head.retryInMs], [0, 2, 0])
    assert.deepEqual(await world.store.commandFront(endpoint.key, null, 'retry'), { state: 'busy', message })
    await world.settle(worker, world.settlement(endpoint, head, { state: 'delivered' }))
    const trail = (await world.store.attemptsOf(message)).map((attempt) => attempt.n)
    assert.deepEqual(trail, [1, 2, 3])
    assert.deepEqual(await world.store.commandFront(endpoint.key, null, 'retry'), { state: 'none' })
  })

  test('an attempt under way when its delivery is retried by command counts among the attempts before', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delayed', waitMs: minute }))
    const held = await world.head(endpoint)
    await world.store.commandFront(endpoint.key, null, 'retry')
    const late = world.settlement(endpoint, held, { state: 'blocked' })
    await world.settle(worker, late)
    await world.settle(worker, late)
    const head = await world.head(endpoint)
    assert.deepEqual([head.attempts, head.priorAttempts, head.retryInMs], [0, 2, 0])
    await world.settle(worker, world.settlement(endpoint, head, { state: 'delivered' }))
    const trail = await world.store.attemptsOf(row.message)
    assert.deepEqual(
      trail.map(({ n, code }) => [n, code]),
      [
        [1, 'refused'],
        [2, 'refused'],
        [3, 'delivered'],
      ],
    )
  })

  test('a skipped delivery is marked for the owner of its lane, also one that is being sent', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const second = await publishInOrder(world, endpoint)
    assert.equal((await world.store.commandFront(endpoint.key, null, 'skip')).state, 'stored')
    assert.equal((await world.head(endpoint)).retryInMs, skipped)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delayed', waitMs: minute }))
    const head = await world.head(endpoint)
    assert.deepEqual([head.attempts, head.retryInMs], [1, skipped], 'what is held later does not undo it')
    const end = world.settlement(endpoint, head, { state: 'dead', reason: 'skipped' })
    await world.settle(worker, { ...end, attempt: null })
    assert.equal((await world.store.findDead(endpoint.key, row.message))?.reason, 'skipped')
    assert.deepEqual(await world.store.commandFront(endpoint.key, second, 'skip'), { state: 'stored', message: second })
    assert.deepEqual(await world.store.commandFront(endpoint.key, row.message, 'skip'), { state: 'none' })
  })

  test('a lane that rests because of its head is awake after an order', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'blocked' }))
    await world.release(worker, endpoint, minute)
    await world.assertNothingToClaim(worker)
    await world.store.commandFront(endpoint.key, null, 'retry')
    await world.claim(worker)
    await world.store.commandFront(endpoint.key, null, 'skip')
    // The owner's word on how long to rest is older than the order.
    await world.release(worker, endpoint, minute)
    await world.claim(worker)
  })

  test('a message for very many endpoints has its place in order at once, and is queued there once', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const ordered = await world.endpoint(app)
    const plain = await world.endpoint(app)
    const publication = await world.publication([ordered, plain], {
      special: [{ endpoint: ordered.key, orderKey: 0 }],
      // Endpoints that no longer exist: they count, and get nothing.
      endpoints: [ordered.key, plain.key, ...Array.from({ length: 1500 }, (_, i) => i + 1)],
    })
    const [wide] = await world.store.publish([publication])
    assert(wide?.state === 'accepted')
    const next = await publishInOrder(world, ordered)
    assert.deepEqual(await messages(world, ordered), [wide.key, next])
    assert.deepEqual(await messages(world, plain), [])
    while ((await world.store.expand(1000)).more);
    assert.deepEqual(await messages(world, ordered), [wide.key, next])
    assert.deepEqual(await messages(world, plain), [wide.key])
  })
}
