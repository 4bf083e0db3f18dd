import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeadLetter } from '../../../src/domain/delivery.ts'
import { replay } from '../../../src/domain/delivery.ts'
import { decodeKey, encodeId, firstKeyAt } from '../../../src/domain/ids.ts'
import type { BroughtLetter } from '../../../src/features/dead-letters/store.ts'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import type { Publication } from '../../../src/store/store.ts'
import { begin, type Open, type World } from './harness.ts'

export function transferring(open: Open): void {
  test('a dead letter is taken out whole, and comes back to a store that never had it', async (t) => {
    const [from, to] = [await begin(t, open), await begin(t, open)]
    const endpoint = await from.endpoint(await from.application())
    const body = new Uint8Array([0, 255, 10, 13])
    const { letter, brought } = await takeOut(from, endpoint, {
      body,
      contentType: 'image/png',
      eventId: 'e1',
      eventType: 'picture.made',
      channels: ['a'],
      tags: ['t'],
      headers: { 'x-a': '1' },
      delayMs: 0,
    })

    const app = await to.application()
    const other = await to.endpoint(app)
    assert.deepEqual(await to.store.importDead(app.key, [{ ...brought, endpoint: other.key }]), ['imported'])
    const message = await to.store.findMessage(app.key, brought.message.id)
    assert(message)
    assert.deepEqual([...message.body], [...body])
    assert.deepEqual(
      { ...message, body: null },
      { ...brought.message, app: app.key, endpoints: [other.key], expunged: false, body: null },
    )
    assert.equal((await to.store.findMessage(app.key, 'e1'))?.id, message.id)
    const { app: _, endpoint: __, ...rest } = letter
    assert.deepEqual(await to.store.findDead(other.key, message.key), { ...rest, app: app.key, endpoint: other.key })

    assert.deepEqual(await to.store.replay([{ endpoint: other.key, message: message.key }]), [
      { endpoint: other.key, message: message.key },
    ])
    assert.deepEqual(
      (await to.rows(other, replay)).map((row) => [row.message, row.priorAttempts]),
      [[message.key, 0]],
    )
  })

  test('bringing dead letters twice changes nothing, nor bringing those that have gone on since', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { brought, worker } = await takeOut(world, endpoint)
    const bring = (letter = brought) => world.store.importDead(endpoint.app, [letter])
    assert.deepEqual(await bring(), ['unchanged'])
    const delivery = { endpoint: endpoint.key, message: brought.message.key }
    await world.store.replay([delivery])
    assert.deepEqual(await bring(), ['unchanged'])
    await world.pass(5)
    const row = await world.head(endpoint, replay)
    const delivered = world.settlement(endpoint, row, { state: 'delivered' })
    await world.settle(worker, { ...delivered, attempt: { ...delivered.attempt, startedAgoMs: () => 0 } })
    assert.deepEqual(await bring(), ['unchanged'])
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 1, attempts: 2 })
    const later = { ...brought, diedAt: brought.diedAt + 60_000 }
    assert.deepEqual(await bring(later), ['imported'])
    assert.deepEqual(await bring(later), ['unchanged'])
  })

  test('a dead letter that was purged comes back to its message, also without the body', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { brought, letter } = await takeOut(world, endpoint)
    await world.harness.sql('delete from dead')
    const bring = (letter: BroughtLetter) => world.store.importDead(endpoint.app, [letter])
    assert.deepEqual(await bring({ ...brought, body: null }), ['imported'])
    assert.deepEqual(await world.store.findDead(endpoint.key, letter.message), letter)
    await world.harness.sql('delete from dead')
    await world.harness.sql('delete from message')
    assert.deepEqual(await bring({ ...brought, body: null }), ['missing'])
    assert.equal((await world.store.counts()).dead, 0)
    assert.deepEqual(await bring(brought), ['imported'])
    assert.equal((await world.store.findMessage(endpoint.app, brought.message.id))?.key, letter.message)
  })

  test("a message whose key is another's here gets a neighbouring one, the same every time", async (t) => {
    const [from, world] = [await begin(t, open), await begin(t, open)]
    const { brought } = await takeOut(from, await from.endpoint(await from.application()))
    const endpoint = await world.endpoint(await world.application())
    const foreign = await world.endpoint(await world.application())
    const first = { ...brought, endpoint: endpoint.key }
    // The same message in two applications, and one with the same key that is not the same.
    const tail = brought.message.id.slice(-1) === 'a' ? 'b' : 'a'
    const twin = { ...first, message: { ...brought.message, id: brought.message.id.slice(0, -1) + tail } }
    const bring = (app: number, letter: BroughtLetter) => world.store.importDead(app, [letter])
    for (const expected of ['imported', 'unchanged']) {
      assert.deepEqual(await bring(endpoint.app, first), [expected])
      assert.deepEqual(await bring(endpoint.app, twin), [expected])
      assert.deepEqual(await bring(foreign.app, { ...first, endpoint: foreign.key }), [expected])
    }
    assert.equal((await world.store.counts()).messages, 3)
    const { key } = brought.message
    const all = [
      ...(await world.store.listDead(endpoint.app, anyDead)),
      ...(await world.store.listDead(foreign.app, anyDead)),
    ]
    assert.deepEqual(
      all.map((letter) => letter.message),
      [key, key + 1, key + 2],
    )
    const [head] = await world.store.loadSummaries([key + 2])
    assert(head)
    assert.equal(decodeKey('msg', head.id), key + 2)
    assert.equal(head.id.slice(-18), brought.message.id.slice(-18))
  })

  test('the parts of a delivery go with it, for each endpoint its own', async (t) => {
    const [from, to] = [await begin(t, open), await begin(t, open)]
    const app = await from.application()
    const [one, two] = [await from.endpoint(app), await from.endpoint(app)]
    const variants = [
      { body: new TextEncoder().encode('{"a":1}'), signature: null },
      { body: null, signature: 'abc' },
    ]
    const special = [
      { endpoint: one.key, variant: 0 },
      { endpoint: two.key, variant: 1, orderKey: 7 },
    ]
    const { key } = await from.publish([one, two], { special, variants })
    const contents = await from.store.loadContents([
      { endpoint: one.key, message: key },
      { endpoint: two.key, message: key },
      { endpoint: two.key, message: 5 },
    ])
    assert.equal(contents[2], undefined)
    const [a, b] = contents
    assert(a && b)
    assert.deepEqual(Buffer.from(a.variant?.body ?? []).toString(), '{"a":1}')
    assert.deepEqual([a.orderKey, a.variant?.signature], [null, null])
    assert.deepEqual([b.orderKey, b.variant], [7, { body: null, signature: 'abc' }])

    const here = await to.application()
    const [first, second] = [await to.endpoint(here), await to.endpoint(here)]
    const { app: _, body, endpoints: __, expunged: ___, ...message } = a.message
    const died = { ...untriedLetter, message, body, diedAt: 5 }
    const letters = [
      { ...died, endpoint: first.key, orderKey: a.orderKey, variant: a.variant },
      { ...died, endpoint: second.key, orderKey: b.orderKey, variant: b.variant },
    ]
    assert.deepEqual(await to.store.importDead(here.key, letters), ['imported', 'imported'])
    await to.store.replay([first, second].map((endpoint) => ({ endpoint: endpoint.key, message: key })))
    for (const [endpoint, expected] of [
      [first, a],
      [second, b],
    ] as const) {
      const row = await to.head(endpoint, replay)
      assert.equal(row.orderKey, expected.orderKey)
      assert(row.variant !== null)
      const [outgoing] = await to.store.loadVariants([{ message: key, variant: row.variant }])
      assert.deepEqual(Buffer.from(outgoing?.body ?? []), Buffer.from(expected.variant?.body ?? body))
      assert.equal(outgoing?.signature, expected.variant?.signature)
    }
  })

  test('a message from years ago comes back, and is sent again', async (t) => {
    const [from, world] = [await begin(t, open), await begin(t, open)]
    const { brought } = await takeOut(from, await from.endpoint(await from.application()))
    const endpoint = await world.endpoint(await world.application())
    const key = firstKeyAt(Date.UTC(2019, 1, 3)) + 5
    const id = encodeId('msg', key, (length) => 'x'.repeat(length))
    const old = {
      ...brought,
      endpoint: endpoint.key,
      diedAt: Date.UTC(2019, 1, 4),
      message: { ...brought.message, key, id },
      variant: { body: new TextEncoder().encode('{}'), signature: null },
    }
    assert.deepEqual(await world.store.importDead(endpoint.app, [old]), ['imported'])
    assert.deepEqual(await world.store.importDead(endpoint.app, [old]), ['unchanged'])
    assert.equal((await world.store.findMessage(endpoint.app, id))?.key, key)
    const worker = await world.join()
    await world.store.replay([{ endpoint: endpoint.key, message: key }])
    await world.claim(worker)
    const row = await world.head(endpoint, replay)
    assert.equal((await world.store.loadVariants([{ message: key, variant: row.variant ?? -1 }])).length, 1)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' }))
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 1, attempts: 1 })
  })

  test('dead letters that are brought together come together or not at all', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { brought } = await takeOut(world, endpoint)
    await world.harness.sql('delete from dead')
    const impossible = { ...brought, message: { ...brought.message, key: brought.message.key + 1 }, attempts: 0.5 }
    await assert.rejects(world.store.importDead(endpoint.app, [brought, impossible]))
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 1, attempts: 1 })
  })

  test('two who bring the same dead letters at once bring each of them once', async (t) => {
    const [from, world] = [await begin(t, open), await begin(t, open)]
    const there = await from.endpoint(await from.application())
    const endpoint = await world.endpoint(await world.application())
    const letters: BroughtLetter[] = []
    for (let i = 0; i < 5; i++) letters.push({ ...(await takeOut(from, there)).brought, endpoint: endpoint.key })
    const answers = await Promise.all([0, 1, 2].map(() => world.store.importDead(endpoint.app, letters)))
    assert.equal(answers.flat().filter((answer) => answer === 'imported').length, 5)
    assert.equal(answers.flat().filter((answer) => answer === 'unchanged').length, 10)
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 5, messages: 5, attempts: 0 })
  })
}

const anyDead = {
  endpoint: null,
  from: 0,
  until: Number.MAX_SAFE_INTEGER,
  after: null,
  order: 'ascending',
  limit: 10,
} as const

const untriedLetter = {
  reason: 'expired',
  attempts: 0,
  status: 0,
  code: 'untried',
  error: null,
  response: null,
} as const

/** Publishes a message, lets it die, and answers it as it would be brought elsewhere. */
async function takeOut(world: World, endpoint: Endpoint, change: Partial<Publication> = {}) {
  const worker = await world.join()
  const { key } = await world.publish([endpoint], change)
  await world.settle(
    worker,
    world.settlement(endpoint, await world.head(endpoint), { state: 'dead', reason: 'exhausted' }),
  )
  const letter = (await world.store.findDead(endpoint.key, key)) as DeadLetter
  const [contents] = await world.store.loadContents([{ endpoint: endpoint.key, message: key }])
  assert(letter && contents)
  const { app: _, body, endpoints: __, expunged: ___, ...message } = contents.message
  const { orderKey, variant } = contents
  const { app: ____, message: _____, ...died } = letter
  const brought: BroughtLetter = { ...died, message, body, orderKey, variant }
  return { letter, brought, worker }
}
