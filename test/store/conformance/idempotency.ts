import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Once } from '../../../src/store/publishing.ts'
import type { Published } from '../../../src/store/store.ts'
import { begin, inTime, longMs, type Open } from './harness.ts'

const key: Once = { hash: 'key', fingerprint: 'body', ttlMs: longMs }
const window: Once = { hash: 'window', fingerprint: '', ttlMs: longMs }
const nothing = { pending: 0, dead: 0, messages: 0, attempts: 0 }

export function idempotency(open: Open): void {
  test('a publish repeated under its key is answered with the first message and stored once', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const publication = await world.publication([endpoint], { once: [key] })
    const [first] = await world.store.publish([publication])
    assert(first?.state === 'accepted')
    assert.deepEqual(await world.store.publish([publication]), [{ ...first, state: 'repeated' }])
    assert.deepEqual(await world.store.counts(), { ...nothing, pending: 1, messages: 1 })
  })

  test('the key decides before the event id: a repeated publish is no conflict', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const publication = await world.publication([endpoint], { once: [key], eventId: 'evt-1' })
    const [first] = await world.store.publish([publication])
    assert(first?.state === 'accepted')
    assert.deepEqual(await world.store.publish([publication]), [{ ...first, state: 'repeated' }])
    const foreign = { ...publication, once: [{ ...key, hash: 'another' }] }
    assert.deepEqual(await world.store.publish([foreign]), [{ state: 'conflict', id: first.id }])
  })

  test('the same key with another request is a mismatch and leaves no trace', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint], { once: [key] })
    const other = await world.publication([endpoint], { once: [{ ...key, fingerprint: 'other' }], eventId: 'evt-2' })
    assert.deepEqual(await world.store.publish([other]), [{ state: 'mismatch' }])
    assert.equal(await world.store.findMessage(endpoint.app, 'evt-2'), undefined)
    await world.publish([endpoint], { eventId: 'evt-2' })
  })

  test('a refused publish leaves its key free', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint], { eventId: 'evt-1' })
    const refused = await world.publication([endpoint], { once: [key], eventId: 'evt-1' })
    const stale = { ...refused, version: refused.version - 1, eventId: null }
    const answers = await world.store.publish([refused])
    assert.equal(answers[0]?.state, 'conflict')
    assert.deepEqual(await world.store.publish([stale]), [{ state: 'stale' }])
    await world.publish([endpoint], { once: [{ ...key, fingerprint: 'another body' }] })
  })

  test('twins in one group: the second is answered with the first', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const twin = await world.publication([endpoint], { once: [window] })
    const other = await world.publication([endpoint])
    const mismatch = { ...twin, once: [{ ...window, fingerprint: 'x' }] }
    const [first, second, third, fourth] = await world.store.publish([twin, twin, other, mismatch])
    assert(first?.state === 'accepted')
    assert.deepEqual(second, { ...first, state: 'repeated' })
    assert.equal(third?.state, 'accepted')
    assert.deepEqual(fourth, { state: 'mismatch' })
    assert.equal((await world.store.counts()).messages, 2)
  })

  test('a hash whose message was removed is free again, for one message', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const { key: app } = await world.application()
    const publicationOf = (once: Once) => world.publication([], { app, once: [once] })
    const other = { ...window, hash: 'of a batch' }
    const removed = await store.publish([await publicationOf(window), await publicationOf(other)])
    await store.removeMessages(
      app,
      removed.map((each) => (each.state === 'accepted' ? each.key : 0)),
    )
    /** A message that is answered as stale is published again. */
    const persist = async <T extends { readonly state: string }>(publish: () => Promise<T | undefined>) => {
      const answer = await publish()
      return answer?.state === 'stale' ? publish() : answer
    }
    const publication = await publicationOf(window)
    const one = async () => (await store.publish([publication]))[0]
    const second = await persist(one)
    assert(second?.state === 'accepted')
    assert.deepEqual(await one(), { ...second, state: 'repeated' })
    const together = [await publicationOf(other)]
    const batch = await persist(() => store.publishTogether(together, null))
    assert(batch?.state === 'accepted' && batch.messages[0]?.repeated === undefined)
    assert.equal((await store.counts()).messages, 2)
  })

  test('a key that expired can be used again, and the second use counts from then', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const short = { ...key, ttlMs: 120 }
    const first = await world.publish([endpoint], { once: [short] })
    await world.pass(200)
    const second = await world.publish([endpoint], { once: [{ ...key, fingerprint: 'another body' }] })
    assert.notEqual(first.id, second.id)
    const again = await world.publication([endpoint], { once: [{ ...key, fingerprint: 'another body' }] })
    assert.deepEqual(await world.store.publish([again]), [{ ...second, state: 'repeated' }])
  })

  test('a publish that met a dedupe window keeps its answer when the window has passed', (t) =>
    inTime(t, open, async (world, ms) => {
      const endpoint = await world.endpoint(await world.application())
      const first = await world.publish([endpoint], { once: [{ ...window, ttlMs: ms }] })
      const repeat = await world.publication([endpoint], { once: [key, { ...window, ttlMs: ms }] })
      assert.deepEqual(await world.store.publish([repeat]), [{ ...first, state: 'repeated' }])
      await world.pass(ms + 50)
      assert.deepEqual(await world.store.publish([repeat]), [{ ...first, state: 'repeated' }])
      assert.equal((await world.store.counts()).messages, 1)
    }))

  test('whatever is published how often, each key has one message, and what is refused has none', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const plain = await world.publication([endpoint])
    const step = fc.record({ hash: fc.nat(3), body: fc.nat(1), event: fc.option(fc.nat(2)) })
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { maxLength: 5 }), { maxLength: 6 }), async (groups) => {
        run++
        const before = (await world.store.counts()).messages
        const holders = new Map<string, { body: number; id: string }>()
        const events = new Map<string, string>()
        const accepted = new Set<string>()
        for (const group of groups) {
          const answers = await world.store.publish(
            group.map(({ hash, body, event }) => ({
              ...plain,
              eventId: event === null ? null : `e${run}-${event}`,
              once: [{ hash: `${run}-${hash}`, fingerprint: `${body}`, ttlMs: longMs }],
            })),
          )
          for (const [i, { hash, body, event }] of group.entries()) {
            const answer = answers[i] as Published
            // A twin takes its turn after the others of its group, so an event id may go to a later one of them.
            const holder = holders.get(`${hash}`)
            if (answer.state === 'accepted') {
              assert.equal(holder, undefined)
              holders.set(`${hash}`, { body, id: answer.id })
              if (event !== null) events.set(`${event}`, answer.id)
              accepted.add(answer.id)
            } else if (answer.state === 'repeated') {
              const known = holder ?? holders.get(`${hash}`)
              assert.deepEqual(known, { body, id: answer.id })
            } else if (answer.state === 'mismatch') assert.notEqual(holder?.body, body)
            else assert.equal(answer.state, 'conflict')
          }
        }
        assert.equal((await world.store.counts()).messages - before, accepted.size)
        for (const [event, id] of events) {
          assert.equal((await world.store.findMessage(endpoint.app, `e${run}-${event}`))?.id, id)
        }
      }),
      { numRuns: 40 },
    )
  })

  test('messages published together are stored all or none', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const good = await world.publication([endpoint], { once: [window] })
    const event = { ...good, once: [], eventId: 'evt-1' }
    const taken = await world.publish([endpoint], { eventId: 'taken' })
    const refused = await world.store.publishTogether([good, event, { ...event, eventId: 'taken' }], key)
    assert.deepEqual(refused, { state: 'conflict', index: 2, id: taken.id })
    assert.deepEqual(await world.store.publishTogether([good, { ...event, version: -1 }], key), { state: 'stale' })
    assert.deepEqual(await world.store.counts(), { ...nothing, pending: 1, messages: 1 })

    const accepted = await world.store.publishTogether([good, event, good], key)
    assert(accepted.state === 'accepted')
    const [first, , third] = accepted.messages
    assert.deepEqual(third, { ...first, repeated: true }, 'the twin of a message is that message')
    assert.equal((await world.store.counts()).messages, 3)
    const messages = accepted.messages.map(({ key, id }) => ({ key, id }))
    assert.deepEqual(await world.store.publishTogether([good, event, good], key), { state: 'repeated', messages })
    const mismatch = await world.store.publishTogether([good], { ...key, fingerprint: 'other' })
    assert.deepEqual(mismatch, { state: 'mismatch' })
    assert.equal((await world.store.counts()).messages, 3)
  })

  test('messages published together signal their endpoints; refused ones signal none', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const rows: unknown[] = []
    world.store.watch({ rows: (...args) => void rows.push(args), lanes() {}, settings() {} })
    const good = await world.publication([endpoint])
    await world.store.publishTogether([good, { ...good, version: -1 }], null)
    assert.deepEqual(rows, [])
    await world.store.publishTogether([good, good], null)
    assert.deepEqual(rows, [[[endpoint.key], 0]])
  })

  test('a reserved request is in flight for others until it is answered, and then answered the same', async (t) => {
    const { store } = await begin(t, open)
    assert.deepEqual(await store.reserve(key, longMs), { state: 'reserved' })
    assert.deepEqual(await store.reserve(key, longMs), { state: 'in_flight' })
    assert.deepEqual(await store.reserve({ ...key, fingerprint: 'other' }, longMs), { state: 'mismatch' })
    await store.complete(key, { status: 201, body: new Uint8Array([0, 255, 10]) })
    const again = await store.reserve(key, longMs)
    assert(again.state === 'answered')
    assert.deepEqual([again.answer.status, [...again.answer.body]], [201, [0, 255, 10]])
    assert.deepEqual(await store.reserve({ ...key, fingerprint: 'other' }, longMs), { state: 'mismatch' })
  })

  test('an abandoned reservation is free at once, one that was forgotten when its time is up', async (t) => {
    const world = await begin(t, open)
    await world.store.reserve(key, longMs)
    await world.store.abandon(key)
    assert.deepEqual(await world.store.reserve({ ...key, fingerprint: 'other' }, 100), { state: 'reserved' })
    await world.pass(150)
    assert.deepEqual(await world.store.reserve(key, longMs), { state: 'reserved' })
    await world.store.complete(key, { status: 200, body: new Uint8Array(0) })
    await world.store.abandon(key)
    assert.equal((await world.store.reserve(key, longMs)).state, 'answered')
  })

  test('expired keys are swept in chunks, and nothing else', async (t) => {
    const world = await begin(t, open)
    const day = 24 * 60 * 60 * 1000
    const later = { ...key, hash: 'later', ttlMs: 3 * day }
    await world.store.reserve(later, 3 * day)
    assert.equal(await world.store.sweepIdempotency(10), 0)
    for (let i = 0; i < 5; i++) await world.store.reserve({ ...key, hash: `old-${i}` }, 20)
    // SQLite removes by the day.
    await world.pass(world.store.dialect === 'sqlite' ? day : 50)
    assert.equal(await world.store.sweepIdempotency(3), 3)
    assert.equal(await world.store.sweepIdempotency(3), 2)
    assert.equal(await world.store.sweepIdempotency(3), 0)
    assert.deepEqual(await world.store.reserve(later, longMs), { state: 'in_flight' })
  })
}
