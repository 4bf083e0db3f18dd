import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeKey, keyTime } from '../../../src/domain/ids.ts'
import type { StoredMessage } from '../../../src/store/store.ts'
import { assertRemaining, begin, inTime, type Open } from './harness.ts'

export function intake(open: Open): void {
  test('subscriptions list every endpoint with its filters, the disabled ones too', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const all = await world.endpoint(app)
    const some = await world.endpoint(app, {
      ...{ uid: 'some', eventTypes: ['video.*'], channels: ['eu'], disabled: true },
    })
    await world.endpoint(await world.application())
    const list = (await world.store.subscriptions(app.key))?.list.toSorted((a, b) => a.endpoint - b.endpoint)
    assert.deepEqual(list, [
      { endpoint: all.key, id: all.id, uid: null, eventTypes: null, channels: null },
      { endpoint: some.key, id: some.id, uid: 'some', eventTypes: ['video.*'], channels: ['eu'] },
    ])
  })

  test('an application that does not exist has no subscriptions, and publishing to it is stale', async (t) => {
    const world = await begin(t, open)
    assert.equal(await world.store.subscriptions(4711), undefined)
    const answers = await world.store.publish([await world.publication([], { app: 4711 })])
    assert.deepEqual(answers, [{ state: 'stale' }])
    assert.equal((await world.store.counts()).messages, 0)
  })

  test('a message comes back exactly as it was published, byte for byte', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const body = new Uint8Array(256).map((_, i) => i)
    const given = {
      body,
      eventType: 'a.b',
      eventId: 'evt-1',
      channels: ['x', 'é'],
      contentType: 'text/plain',
      tags: ['a', 'b"c'],
      headers: { 'x-trace': '1' },
    }
    const { key, id } = await world.publish([endpoint], given)
    assert.equal(decodeKey('msg', id), key)
    const message = await world.store.findMessage(endpoint.app, id)
    assert(message)
    const expected = {
      ...given,
      body: [...body],
      key,
      id,
      app: endpoint.app,
      endpoints: [endpoint.key],
      deliverAt: null,
      expiresAt: null,
      orderingKey: null,
      expunged: false,
      eraseReason: null,
    }
    assert.deepEqual({ ...message, body: [...message.body] }, expected)
    assert.deepEqual(await world.store.findMessage(endpoint.app, 'evt-1'), message)
    const [outgoing] = await world.store.loadMessages([key])
    assert.deepEqual(outgoing?.headers, { 'x-trace': '1' })
  })

  test('every kind of message keeps its trace and the headers it arrived with, until it is erased', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 a=1,"b={\\},c=null'
    const once = [{ hash: 'h', fingerprint: '', ttlMs: 60_000 }]
    const variants = [{ body: new Uint8Array([1]), signature: null }]
    const special = [{ endpoint: endpoint.key, variant: 0 }]
    const kinds = [{}, { eventId: 'e' }, { once }, { delayMs: 60_000 }, { expiresInMs: 60_000 }, { variants, special }]
    const keys: number[] = []
    const arrivedHeaders = { 'x-github-event': 'push' }
    for (const kind of kinds) keys.push((await world.publish([endpoint], { ...kind, trace, arrivedHeaders })).key)
    const plain = await world.publish([endpoint])
    const traces = async () => (await world.store.loadMessages([...keys, plain.key])).map((message) => message.trace)
    const arrived = async () => (await world.store.loadMessages([...keys, plain.key])).map((m) => m.arrivedHeaders)
    assert.deepEqual((await traces()).sort(), [...keys.map(() => trace), null].sort())
    assert.deepEqual(
      (await arrived()).filter((each) => each !== null),
      keys.map(() => arrivedHeaders),
    )
    const [variant] = await world.store.loadVariants([{ message: keys.at(-1) as number, variant: 0 }])
    assert.deepEqual([variant?.trace, variant?.arrivedHeaders], [trace, arrivedHeaders])

    await world.store.expungeMessages([keys[0] as number])
    assert.equal((await traces()).filter((each) => each !== null).length, keys.length - 1)
    assert.equal((await arrived()).filter((each) => each !== null).length, keys.length - 1)
  })

  test('a delayed message says when it is to be delivered', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { id, key } = await world.publish([], { app: app.key, delayMs: 60_000 })
    const message = await world.store.findMessage(app.key, id)
    assert.ok(Math.abs((message?.deliverAt ?? 0) - keyTime(key) - 60_000) < 5000)
    assert.deepEqual([message?.tags, message?.headers], [null, null])
  })

  test('an empty body is a body', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { key } = await world.publish([endpoint], { body: new Uint8Array(0) })
    const [outgoing] = await world.store.loadMessages([key])
    assert.equal(outgoing?.body.byteLength, 0)
  })

  test('a message waits once for each of its endpoints and for no other', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoints = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    const [first, second, third] = endpoints as [(typeof endpoints)[0], (typeof endpoints)[0], (typeof endpoints)[0]]
    const { key } = await world.publish([first, third])
    assert.deepEqual(
      [await world.head(first), await world.head(third)].map((row) => row.message),
      [key, key],
    )
    assert.deepEqual(await world.rows(second), [])
    assert.equal((await world.store.counts()).pending, 2)
  })

  test('a message without a subscribed endpoint is stored', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { id } = await world.publish([], { app: app.key })
    assert.deepEqual((await world.store.findMessage(app.key, id))?.endpoints, [])
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 1, attempts: 0 })
  })

  test('a publication matched against an older version is stale and leaves no trace', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const stale = await world.publication([endpoint], { eventId: 'evt-1' })
    await world.endpoint(app)
    assert.deepEqual(await world.store.publish([stale]), [{ state: 'stale' }])
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 0, attempts: 0 })
    assert.equal(await world.store.findMessage(app.key, 'evt-1'), undefined)
    await world.publish([endpoint], { eventId: 'evt-1' })
  })

  test('each publication of a group is answered for itself, in order', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const other = await world.endpoint(await world.application())
    const good = await world.publication([endpoint], { eventId: 'evt-1' })
    const fine = await world.publication([other])
    const answers = await world.store.publish([good, { ...fine, version: fine.version - 1 }, fine, good])
    assert.deepEqual(
      answers.map((answer) => answer.state),
      ['accepted', 'stale', 'accepted', 'conflict'],
    )
    assert.deepEqual(await world.store.counts(), { pending: 2, dead: 0, messages: 2, attempts: 0 })
  })

  test('an event id can be used once per application; the conflict names the message that has it', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { id } = await world.publish([endpoint], { eventId: 'evt-1' })
    const again = await world.publication([endpoint], { eventId: 'evt-1', body: new Uint8Array([1]) })
    assert.deepEqual(await world.store.publish([again]), [{ state: 'conflict', id }])
    assert.equal((await world.store.counts()).pending, 1)
    await world.publish([await world.endpoint(await world.application())], { eventId: 'evt-1' })
  })

  test('two publications of one group with the same event id: the first wins', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const twin = await world.publication([endpoint], { eventId: 'twin' })
    const [first, second] = await world.store.publish([twin, twin])
    assert(first?.state === 'accepted')
    assert.deepEqual(second, { state: 'conflict', id: first.id })
    assert.equal((await world.rows(endpoint)).length, 1)
  })

  test('a group that cannot be stored leaves nothing behind', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const good = await world.publication([endpoint], { eventId: 'evt-1' })
    const bad = { ...good, eventId: null, body: null as unknown as Uint8Array }
    await assert.rejects(world.store.publish([good, bad]))
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 0, attempts: 0 })
    await world.publish([endpoint], { eventId: 'evt-1' })
  })

  test('an empty group is answered with nothing', async (t) => {
    const { store } = await begin(t, open)
    assert.deepEqual(await store.publish([]), [])
  })

  test('the keys of a large group grow in its order, and its rows are served in that order', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const publication = await world.publication([endpoint])
    const answers = await world.store.publish(Array.from({ length: 300 }, () => publication))
    const keys = answers.map((answer) => (answer.state === 'accepted' ? answer.key : 0))
    assert.deepEqual(
      keys,
      keys.toSorted((a, b) => a - b),
    )
    assert.equal(new Set(keys).size, 300)
    const rows = await world.rows(endpoint)
    assert.deepEqual(
      rows.map((row) => row.message),
      keys.slice(0, 100),
    )
  })

  test('a delayed message is timed: unseen until it is due, and its age starts there', (t) =>
    inTime(t, open, async (world, ms) => {
      const endpoint = await world.endpoint(await world.application())
      const { key } = await world.publish([endpoint], { delayMs: ms })
      assert.deepEqual(await world.rows(endpoint, 0), [])
      assert.deepEqual(await world.rows(endpoint, 1), [])
      await world.pass(ms + 50)
      const row = await world.head(endpoint, 1)
      assert.equal(row.message, key)
      assert(row.ageMs >= 0 && row.ageMs < 60_000)
    }))

  test('a publish signals its endpoints, and a refused one nothing', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second] = [await world.endpoint(app), await world.endpoint(app)]
    const rows: unknown[] = []
    world.store.watch({ rows: (...args) => void rows.push(args), lanes() {}, settings() {} })
    const good = await world.publication([first, second], { eventId: 'evt-1' })
    await world.store.publish([good])
    assert.deepEqual(rows, [[[first.key, second.key], 0]])
    await world.store.publish([good, { ...good, version: -1 }])
    assert.equal(rows.length, 1)
  })

  test('stored messages are handed to the worker of their lane exactly as it would read them', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second] = [await world.endpoint(app), await world.endpoint(app)]
    const told: { readonly messages: readonly StoredMessage[]; readonly begunAt: number }[] = []
    const rows: unknown[] = []
    world.store.watch({
      rows: (...args) => void rows.push(args),
      lanes() {},
      settings() {},
      stored(messages, begunAt) {
        told.push({ messages, begunAt })
        return [second.key]
      },
    })
    const good = await world.publication([first, second], { eventId: 'evt-1' })
    await world.store.publish([good, { ...good, version: -1 }])
    assert.deepEqual(rows, [[[second.key], 0]], 'the rest is read')
    const [one] = told
    const [message] = one?.messages ?? []
    assert.equal(one?.messages.length, 1)
    assert.equal(message?.publication, good)
    const [page] = await world.store.readDue([{ endpoint: first.key, class: 0, after: null, limit: 9 }])
    assert.deepEqual(
      page?.rows.map(({ ageMs: _age, lateMs: _late, ...row }) => row),
      [
        {
          ...{ message: message?.identity.key, dueAt: message?.dueAt, class: 0, attempts: 0, priorAttempts: 0 },
          ...{ orderKey: null, retryInMs: 0, expiresInMs: null, variant: null },
        },
      ],
    )
    const [loaded] = await world.store.loadMessages([message?.identity.key as number])
    assert.equal(loaded?.id, message?.identity.id)
    await world.pass(5)
    await world.store.publish([await world.publication([first])])
    assert((told[1]?.begunAt ?? 0) > (one?.begunAt ?? 0), 'when storing began, which no earlier read can be behind')
  })

  test('delayed deliveries, and those that go another way than the rest, are reported as rows to be read', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const told: number[] = []
    const rows: unknown[] = []
    world.store.watch({
      rows: (endpoints) => void rows.push(endpoints),
      lanes() {},
      settings() {},
      stored: (messages) => {
        told.push(messages.length)
        return []
      },
    })
    const plain = await world.publication([endpoint])
    await world.store.publish([{ ...plain, delayMs: 60_000 }])
    await world.store.publish([plain, { ...plain, expiresInMs: 60_000 }])
    await world.store.publish([plain, { ...plain, special: [{ endpoint: endpoint.key, orderKey: 7 }] }])
    assert.deepEqual(rows, [[endpoint.key], [endpoint.key], [endpoint.key]])
    assert.deepEqual(told, [])
    await world.store.publish([plain, plain])
    assert.deepEqual([rows.length, told], [3, [2]])
  })

  test('a publish that wakes a lane signals that too', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    const woken = Promise.withResolvers<void>()
    world.store.watch({ rows() {}, lanes: () => woken.resolve(), settings() {} })
    await world.publish([endpoint])
    await woken.promise
    const { lanes } = await world.store.claim(worker, 1)
    assert.equal(lanes[0]?.endpoint.key, endpoint.key)
  })

  test('a lane is due when its delayed message is', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    await world.publish([endpoint], { delayMs: 60_000 })
    await world.assertNothingToClaim(worker)
    assertRemaining((await world.store.claim(worker, 1)).nextInMs, 60_000)
    await world.publish([endpoint], { delayMs: 100 })
    await world.pass(150)
    await world.claim(worker)
  })

  test('a lane is due by the earliest of the messages that one group brings it', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    const later = await world.publication([endpoint], { delayMs: 60_000 })
    await world.store.publish([later, { ...later, delayMs: 0 }, later])
    await world.claim(worker)
  })
}
