import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeadLetter, DeadLetterSummary } from '../../../src/domain/delivery.ts'
import type { CountedList, DeadRange } from '../../../src/features/dead-letters/store.ts'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import type { PendingRow } from '../../../src/store/delivering.ts'
import type { AttemptRange, KeyRange } from '../../../src/store/messages.ts'
import { begin, type Open, type World } from './harness.ts'

const all = { from: 0, until: Number.MAX_SAFE_INTEGER, after: null, order: 'ascending', limit: 100 } as const
const anyKey: KeyRange = all
const anyAttempt: AttemptRange = all
const anyDead: DeadRange = { ...all, endpoint: null }

export function browsing(open: Open): void {
  test("an application's messages come in the order they were accepted, or backwards, within a range", async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const other = await world.endpoint(await world.application())
    const keys: number[] = []
    for (let i = 0; i < 5; i++) {
      keys.push((await world.publish([endpoint], { eventId: `e${i}` })).key)
      await world.publish([other])
    }
    const list = async (range: Partial<KeyRange>) =>
      (await world.store.listMessages(endpoint.app, { ...anyKey, ...range })).map((head) => keys.indexOf(head.key))
    assert.deepEqual(await list({}), [0, 1, 2, 3, 4])
    assert.deepEqual(await list({ order: 'descending' }), [4, 3, 2, 1, 0])
    assert.deepEqual(await list({ limit: 2 }), [0, 1])
    assert.deepEqual(await list({ after: keys[1] as number, limit: 2 }), [2, 3])
    assert.deepEqual(await list({ after: keys[3] as number, order: 'descending', limit: 2 }), [2, 1])
    assert.deepEqual(await list({ from: keys[1] as number, until: keys[3] as number }), [1, 2])
    const [head] = await world.store.listMessages(endpoint.app, anyKey)
    const {
      body,
      endpoints: _,
      headers: __,
      ...message
    } = (await world.store.findMessage(endpoint.app, 'e0')) ?? assert.fail('not found')
    assert.deepEqual(head, { ...message, bytes: body.length })
  })

  test('deliveries are counted and looked up without reading whom each message is for', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second] = [await world.endpoint(app), await world.endpoint(app)]
    const a = await world.publish([first, second])
    const b = await world.publish([second])
    await world.publish([await world.endpoint(await world.application())])
    assert.deepEqual(await world.store.acceptedFor(first.key, [a.key, b.key, 1]), [a.key])
    assert.deepEqual(await world.store.acceptedFor(first.key, []), [])
    const named = await world.publish([second], { special: [{ endpoint: second.key, direct: true }] })
    assert.deepEqual(await world.store.acceptedFor(first.key, [b.key, named.key]), [named.key], 'not missed')
    const count = (range: Partial<KeyRange>) => world.store.countDestinations(app.key, { ...anyKey, ...range })
    assert.deepEqual(await count({}), { messages: 3, destinations: 4, last: named.key })
    assert.deepEqual(await count({ limit: 1 }), { messages: 1, destinations: 2, last: a.key })
    assert.deepEqual(await count({ after: a.key }), { messages: 2, destinations: 2, last: named.key })
    assert.deepEqual(await count({ until: a.key }), { messages: 0, destinations: 0, last: null })
  })

  test('messages are loaded by key without their bodies, those that exist', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { key } = await world.publish([endpoint])
    const heads = await world.store.loadSummaries([key, key + 1])
    assert.deepEqual(
      heads.map((head) => [head.key, 'body' in head]),
      [[key, false]],
    )
    assert.deepEqual(await world.store.loadSummaries([]), [])
  })

  test('the destinations of messages are loaded by key, except of messages with very many', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second] = [await world.endpoint(app), await world.endpoint(app)]
    const [both, one] = [await world.publish([first, second]), await world.publish([second])]
    const load = async (most: number) => {
      const found = await world.store.loadDestinations([both.key, one.key, 1], most)
      return found.sort((a, b) => a.key - b.key)
    }
    const narrow = { key: one.key, endpoints: [second.key] }
    assert.deepEqual(await load(2), [{ key: both.key, endpoints: [first.key, second.key] }, narrow])
    assert.deepEqual(await load(1), [narrow])
    assert.deepEqual(await world.store.loadDestinations([], 1), [])
  })

  test("an endpoint's attempts come in the order they began, and say whether they are the latest", async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [endpoint, other] = [await world.endpoint(app), await world.endpoint(app)]
    const worker = await world.join()
    const first = await world.publish([endpoint, other])
    const second = await world.publish([endpoint])
    const rows = await world.rows(endpoint)
    // Both in one batch, so that they began at the same instant.
    await world.settle(
      worker,
      ...rows.map((row) => world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 })),
      world.settlement(other, await world.head(other), { state: 'delivered' }),
    )
    await world.pass(50)
    await world.settle(worker, world.settlement(endpoint, await world.head(endpoint, 1), { state: 'delivered' }))

    const list = async (range: Partial<AttemptRange>) => {
      const attempts = await world.store.listAttempts(endpoint.key, { ...anyAttempt, ...range })
      return attempts.map(({ message, n, isLatest }) => [message, n, isLatest])
    }
    const expected = [
      [first.key, 1, false],
      [second.key, 1, true],
      [first.key, 2, true],
    ]
    assert.deepEqual(await list({}), expected)
    assert.deepEqual(await list({ order: 'descending' }), expected.toReversed())
    const [a, b, c] = await world.store.listAttempts(endpoint.key, anyAttempt)
    assert(a && b && c && a.at === b.at && b.at < c.at)
    assert.deepEqual(await list({ after: a }), expected.slice(1))
    assert.deepEqual(await list({ after: a, limit: 1 }), expected.slice(1, 2))
    assert.deepEqual(await list({ after: b, order: 'descending' }), expected.slice(0, 1))
    assert.deepEqual(await list({ from: c.at }), expected.slice(2))
    assert.deepEqual(await list({ until: c.at }), expected.slice(0, 2))

    assert.deepEqual(await world.store.attemptedEndpoints(first.key), [endpoint.key, other.key])
    assert.deepEqual(await world.store.attemptedEndpoints(1), [])
    const heads = await world.store.attemptBriefsOf(first.key)
    const attempts = await world.store.attemptsOf(first.key)
    assert.deepEqual(
      heads,
      attempts.map(({ id, message, endpoint, n, at, status, code, response }) => {
        return { id, message, endpoint, n, at, status, code, bytes: response?.length ?? 0 }
      }),
    )
    const backwards = [{ message: first.key, endpoint: 1, n: 1 }, ...heads.toReversed()]
    assert.deepEqual(await world.store.loadAttempts(backwards), [undefined, ...attempts.toReversed()])
    assert.deepEqual(await world.store.loadAttempts([]), [])
    assert.equal((await world.store.findAttempt(first.key, c.id))?.n, 2)
    assert.equal(await world.store.findAttempt(second.key, c.id), undefined)
    const asked = [
      { endpoint: endpoint.key, message: first.key },
      { endpoint: other.key, message: second.key },
      { endpoint: other.key, message: first.key },
    ]
    const latest = await world.store.latestAttempts(asked)
    assert.deepEqual(
      latest.map((attempt) => attempt && [attempt.endpoint, attempt.n]),
      [[endpoint.key, 2], undefined, [other.key, 1]],
    )
  })

  test('a receiver’s answer can be erased, also where its dead letter quotes it', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
    await world.store.expungeAttempt({ message: row.message, endpoint: endpoint.key, n: 1 })
    const [attempt] = await world.store.attemptsOf(row.message)
    assert.equal(textOf(attempt?.response), 'EXPUNGED')
    assert.equal(textOf((await world.store.findDead(endpoint.key, row.message))?.response), 'EXPUNGED')
  })

  test('the headers of an answer stay with its attempt until the answer or its message is erased', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const headers = { 'content-type': 'text/plain', 'x-odd': '"\\\u0000é😀' }
    const text = JSON.stringify(headers)
    const tried = (row: PendingRow, responseHeaders?: string) => {
      const settlement = world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 })
      return { ...settlement, attempt: { ...settlement.attempt, responseHeaders } }
    }
    await world.settle(worker, tried(row, text))
    await world.pass(5)
    await world.settle(worker, tried(await world.head(endpoint, 1)))
    await world.pass(5)
    await world.settle(worker, tried(await world.head(endpoint, 1), text))
    const kept = async () => (await world.store.attemptsOf(row.message)).map((attempt) => attempt.responseHeaders)
    assert.deepEqual(await kept(), [headers, null, headers])
    const [brief, without] = await world.store.attemptBriefsOf(row.message)
    assert.ok((brief?.bytes ?? 0) > (without?.bytes ?? 0) + 20, 'headers count in the size of an answer')
    const keys = [1, 3].map((n) => ({ message: row.message, endpoint: endpoint.key, n }))
    const loaded = await world.store.loadAttempts(keys)
    assert.deepEqual(
      loaded.map((attempt) => attempt?.responseHeaders),
      [headers, headers],
    )

    await world.store.expungeAttempt({ message: row.message, endpoint: endpoint.key, n: 1 })
    assert.deepEqual(await kept(), [null, null, headers])
    await world.store.expungeMessages([row.message])
    assert.deepEqual(await kept(), [null, null, null])
  })

  test('the timings of an attempt are kept as they were written, also when its message is erased', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const tried = (row: PendingRow, timings: string | null) => {
      const settlement = world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 })
      return { ...settlement, attempt: { ...settlement.attempt, timings } }
    }
    const written = ['3,12,40,105', '', null]
    await world.settle(worker, tried(row, written[0] ?? null))
    for (const timings of written.slice(1)) {
      await world.pass(5)
      await world.settle(worker, tried(await world.head(endpoint, 1), timings ?? null))
    }
    const kept = async () => (await world.store.attemptsOf(row.message)).map(({ timings }) => timings)
    assert.deepEqual(await kept(), written)
    await world.store.expungeMessages([row.message])
    assert.deepEqual(await kept(), written)
  })

  test('an attempt whose message was erased meanwhile is recorded without headers of the answer', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.store.expungeMessages([row.message])
    const settlement = world.settlement(endpoint, row, { state: 'delivered' })
    await world.settle(worker, { ...settlement, attempt: { ...settlement.attempt, responseHeaders: '{"x":"echo"}' } })
    const [attempt] = await world.store.attemptsOf(row.message)
    assert.equal(attempt?.responseHeaders, null)
  })

  test('erasing an earlier answer leaves the dead letter, which quotes a later one', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const early = world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 })
    await world.settle(worker, { ...early, attempt: { ...early.attempt, response: Buffer.from('early') } })
    await world.pass(5)
    const last = world.settlement(endpoint, await world.head(endpoint, 1), { state: 'dead', reason: 'exhausted' })
    await world.settle(worker, last)
    await world.store.expungeAttempt({ message: row.message, endpoint: endpoint.key, n: 1 })
    const letter = await world.store.findDead(endpoint.key, row.message)
    assert.deepEqual([...(letter?.response ?? [])], [0, 255, 10])
  })

  test('dead letters come by when they died, of an application or of one endpoint', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second] = [await world.endpoint(app), await world.endpoint(app)]
    const foreign = await world.endpoint(await world.application())
    const worker = await world.join()
    await world.publish([first, second])
    await world.publish([first])
    await world.publish([foreign])
    await die(world, worker, second)
    await world.pass(5)
    await die(world, worker, first)
    await die(world, worker, foreign)

    const list = async (range: Partial<DeadRange>) =>
      (await world.store.listDead(app.key, { ...anyDead, ...range })).map((letter) => letter.endpoint)
    assert.deepEqual(await list({}), [second.key, first.key, first.key])
    assert.deepEqual(await list({ order: 'descending' }), [first.key, first.key, second.key])
    assert.deepEqual(await list({ endpoint: first.key }), [first.key, first.key])
    assert.deepEqual(await list({ endpoint: second.key, order: 'descending' }), [second.key])
    const letters = await world.store.listDead(app.key, anyDead)
    const whole = await world.store.loadDead([...letters, { endpoint: 1, message: 2 }])
    assert.equal(whole.pop(), undefined)
    assert.deepEqual(
      whole.map((letter) => letter && headOf(letter)),
      letters,
    )
    assert.deepEqual(await world.store.loadDead([]), [])
    const [a, b, c] = letters
    assert(a && b && c && b.diedAt === c.diedAt)
    for (const endpoint of [null, first.key]) {
      const rest = await world.store.listDead(app.key, { ...anyDead, endpoint, after: b })
      assert.deepEqual(
        rest.map((letter) => letter.message),
        [c.message],
      )
      const before = await world.store.listDead(app.key, { ...anyDead, endpoint, after: c, order: 'descending' })
      assert.equal(before[0]?.message, b.message)
    }
    assert.deepEqual(await list({ from: b.diedAt }), [first.key, first.key])
    assert.deepEqual(await list({ until: b.diedAt }), [second.key])

    const byMessage = async (range: Partial<KeyRange>) =>
      (await world.store.listDeadOf(first.key, { ...anyKey, ...range })).map((letter) => letter.message)
    assert.deepEqual(await byMessage({}), [b.message, c.message])
    assert.deepEqual(await byMessage({ order: 'descending', limit: 1 }), [c.message])
    assert.deepEqual(await byMessage({ after: b.message }), [c.message])
    assert.deepEqual(await byMessage({ until: c.message }), [b.message])

    const all = (await world.store.listDead(null, anyDead)).map((letter) => letter.endpoint)
    assert.deepEqual(all, [second.key, first.key, first.key, foreign.key])
    const [newest, next] = await world.store.listDead(null, { ...anyDead, order: 'descending', limit: 2 })
    assert.equal(newest?.endpoint, foreign.key)
    assert.deepEqual(await world.store.listDead(null, { ...anyDead, after: next ?? null }), [newest])
    const before = await world.store.listDead(null, { ...anyDead, until: b.diedAt })
    assert.deepEqual(before, [a])

    const count = (list: Partial<CountedList>, limit = 10) =>
      world.store.countListed(
        { of: 'dead', app: app.key, endpoint: null, from: 0, until: Number.MAX_SAFE_INTEGER, ...list } as CountedList,
        limit,
      )
    assert.equal(await count({}), 3)
    assert.equal(await count({}, 2), 2)
    assert.equal(await count({ app: null }), 4)
    assert.equal(await count({ endpoint: first.key }), 2)
    assert.equal(await count({ endpoint: first.key, until: b.diedAt }), 0)
    assert.equal(await count({ from: b.diedAt }), 2)
    assert.equal(await count({ app: null, until: b.diedAt }), 1)
    assert.equal(await count({ of: 'dead by message', endpoint: first.key }), 2)
    assert.equal(await count({ of: 'dead by message', endpoint: first.key, from: c.message }), 1)
    assert.equal(await count({ of: 'messages' }), 2)
    assert.equal(await count({ of: 'messages', until: c.message }), 1)
  })
}

/** Lets everything that waits for an endpoint die at once. */
async function die(world: World, worker: number, endpoint: Endpoint): Promise<void> {
  const rows = await world.rows(endpoint)
  await world.settle(
    worker,
    ...rows.map((row) => world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' })),
  )
}

function textOf(bytes: Uint8Array | null | undefined): string {
  return Buffer.from(bytes ?? []).toString()
}

function headOf({ response, ...letter }: DeadLetter): DeadLetterSummary {
  return { ...letter, bytes: response?.length ?? 0 }
}
