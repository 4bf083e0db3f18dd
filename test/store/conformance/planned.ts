import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import { queuedAtOnce } from '../../../src/store/plan.ts'
import type { Publication } from '../../../src/store/store.ts'
import { assertRemaining, begin, type Foreign, inTime, type Open, type World } from './harness.ts'

const bytes = (text: string) => new TextEncoder().encode(text)

/** Four endpoints, and a publication whose deliveries to three of them are each special in another way. */
async function mixed(world: World, change: Partial<Publication> = {}) {
  const app = await world.application()
  const endpoints = [
    await world.endpoint(app),
    await world.endpoint(app),
    await world.endpoint(app),
    await world.endpoint(app),
  ]
  const [plain, ordered, shaped, dropped] = endpoints as [Endpoint, Endpoint, Endpoint, Endpoint]
  const publication = await world.publication(endpoints, {
    orderingKey: 'user "1"',
    special: [
      { endpoint: ordered.key, orderKey: 2 ** 48 - 1 },
      { endpoint: shaped.key, orderKey: 7, variant: 1 },
      { endpoint: dropped.key, drop: 'overflow', variant: 0 },
    ],
    variants: [
      { body: null, signature: 'abc' },
      { body: bytes('{"kept":1.0}'), signature: null },
    ],
    ...change,
  })
  return { app, plain, ordered, shaped, dropped, publication }
}

async function accepted(world: World, publication: Publication): Promise<{ key: number; id: string }> {
  const [published] = await world.store.publish([publication])
  assert(published?.state === 'accepted', `not accepted but ${published?.state}`)
  return published
}

/** Order key and variant of the only row there is. */
async function only(world: World, endpoint: Endpoint, itsClass: 0 | 1 | 2 = 0) {
  const rows = await world.rows(endpoint, itsClass)
  assert.equal(rows.length, 1)
  return { orderKey: rows[0]?.orderKey, variant: rows[0]?.variant, expiresInMs: rows[0]?.expiresInMs }
}

/** Takes a delivery out of the queue for good. */
async function exhaust(world: World, worker: number, endpoint: Endpoint, itsClass: 0 | 1 | 2 = 0): Promise<void> {
  const row = await world.head(endpoint, itsClass)
  await world.settle(worker, world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
}

export function planned(open: Open): void {
  test('each delivery is queued as it was planned, and what was dropped is a dead letter from the start', async (t) => {
    const world = await begin(t, open)
    const { plain, ordered, shaped, dropped, publication } = await mixed(world)
    const worker = await world.join()
    const { key } = await accepted(world, publication)
    assert.deepEqual(await only(world, plain), { orderKey: null, variant: null, expiresInMs: null })
    assert.deepEqual(await only(world, ordered), { orderKey: 2 ** 48 - 1, variant: null, expiresInMs: null })
    assert.deepEqual(await only(world, shaped), { orderKey: 7, variant: 1, expiresInMs: null })
    assert.deepEqual(await world.rows(dropped), [])
    const letter = await world.store.findDead(dropped.key, key)
    assert.deepEqual(
      [letter?.reason, letter?.attempts, letter?.code, letter?.status, letter?.error, letter?.app],
      ['overflow', 0, 'untried', 0, null, dropped.app],
    )
    assert.deepEqual(await world.store.counts(), { pending: 3, dead: 1, messages: 1, attempts: 0 })
    await world.claim(worker, 3)
    await world.assertNothingToClaim(worker)
  })

  test('a message says when it expires and what orders it, and every delivery of it expires with it', async (t) => {
    const world = await begin(t, open)
    const { app, plain, shaped, publication } = await mixed(world, { expiresInMs: 60_000, delayMs: 0 })
    const { key, id } = await accepted(world, publication)
    assertRemaining((await only(world, plain)).expiresInMs ?? undefined, 60_000)
    assertRemaining((await only(world, shaped)).expiresInMs ?? undefined, 60_000)
    const message = await world.store.findMessage(app.key, id)
    assert.equal(message?.orderingKey, 'user "1"')
    const [head] = await world.store.loadSummaries([key])
    assert.deepEqual([head?.expiresAt, head?.orderingKey], [message?.expiresAt, message?.orderingKey])
    assert.ok((message?.expiresAt ?? 0) > Date.UTC(2001))
    const lone = await world.publish([plain], { expiresInMs: 30_000 })
    const rows = await world.rows(plain)
    assertRemaining(rows.find((row) => row.message === lone.key)?.expiresInMs ?? undefined, 30_000)
  })

  test('a planned message for later is timed', (t) =>
    inTime(t, open, async (world, ms) => {
      const { plain, shaped, publication } = await mixed(world, { delayMs: ms })
      await accepted(world, publication)
      assert.deepEqual([...(await world.rows(plain)), ...(await world.rows(shaped))], [])
      await world.pass(ms + 20)
      assert.equal((await only(world, plain, 1)).variant, null)
      assert.equal((await only(world, shaped, 1)).variant, 1)
    }))

  test('an endpoint’s own body is loaded byte for byte, and nothing is loaded without it', async (t) => {
    const world = await begin(t, open)
    const body = new Uint8Array(256).map((_, i) => i)
    const { plain, shaped, publication } = await mixed(world, {
      headers: { 'x-trace': '1' },
      variants: [
        { body: null, signature: 'abc"' },
        { body, signature: null },
        { body: bytes(''), signature: 'def' },
      ],
    })
    const { key, id } = await accepted(world, publication)
    const other = await world.publish([plain])
    const wanted = [2, 1, 0, 3].map((variant) => ({ message: key, variant }))
    const loaded = await world.store.loadVariants([...wanted, { message: other.key, variant: 0 }])
    const byVariant = loaded.toSorted((a, b) => (a.variant ?? 0) - (b.variant ?? 0))
    const about = { eventType: 'video.trending', contentType: 'application/json', headers: { 'x-trace': '1' } }
    const rest = { key, id, ...about, trace: null, arrivedHeaders: null }
    assert.deepEqual(
      byVariant.map((each) => ({ ...each, body: [...each.body] })),
      [
        { ...rest, variant: 0, signature: 'abc"', body: [...bytes('{"views":1.0}')] },
        { ...rest, variant: 1, signature: null, body: [...body] },
        { ...rest, variant: 2, signature: 'def', body: [] },
      ],
    )
    assert.deepEqual(await world.store.loadVariants([]), [])
    assert.equal((await only(world, shaped)).variant, 1)
  })

  test('a retry keeps what was planned', async (t) => {
    const world = await begin(t, open)
    const { shaped, publication } = await mixed(world, { expiresInMs: 60_000 })
    const worker = await world.join()
    await accepted(world, publication)
    await world.claim(worker, 3)
    const row = await world.head(shaped)
    await world.settle(worker, world.settlement(shaped, row, { state: 'waiting', waitMs: 0 }))
    const { expiresInMs, ...kept } = await only(world, shaped, 1)
    assert.deepEqual(kept, { orderKey: 7, variant: 1 })
    assertRemaining(expiresInMs ?? undefined, 60_000)
  })

  test('a replay gets what was planned and does not expire; what was dropped can be replayed too', async (t) => {
    const world = await begin(t, open)
    const { plain, shaped, dropped, publication } = await mixed(world, { expiresInMs: 1 })
    const worker = await world.join()
    const { key } = await accepted(world, publication)
    await world.claim(worker, 3)
    await exhaust(world, worker, shaped)
    await exhaust(world, worker, plain)
    const wanted = [plain, shaped, dropped].map((endpoint) => ({ endpoint: endpoint.key, message: key }))
    assert.equal((await world.store.replay(wanted)).length, 3)
    assert.deepEqual(await only(world, plain, 2), { orderKey: null, variant: null, expiresInMs: null })
    assert.deepEqual(await only(world, shaped, 2), { orderKey: 7, variant: 1, expiresInMs: null })
    assert.deepEqual(await only(world, dropped, 2), { orderKey: null, variant: 0, expiresInMs: null })
    assert.equal((await world.store.counts()).dead, 0)
  })

  test('a dead letter waits nowhere, tried or not', async (t) => {
    const world = await begin(t, open)
    const { dropped, shaped, publication } = await mixed(world)
    const worker = await world.join()
    const { key } = await accepted(world, publication)
    await world.claim(worker, 3)
    const row = await world.head(shaped)
    await world.settle(worker, world.settlement(shaped, row, { state: 'waiting', waitMs: 0 }))
    const again = await world.head(shaped, 1)
    await world.settle(worker, {
      endpoint: shaped.key,
      app: shaped.app,
      row: again,
      attempt: null,
      verdict: { state: 'dead', reason: 'expired' },
    })
    for (const endpoint of [dropped, shaped]) {
      assert.equal(await world.store.findQueued({ endpoint: endpoint.key, message: key }), undefined)
    }
  })

  test('an expunged message is sent in no form', async (t) => {
    const world = await begin(t, open)
    const { plain, publication } = await mixed(world)
    const { key } = await accepted(world, publication)
    const other = await world.store.publish([{ ...publication, orderingKey: null }])
    await world.store.expungeMessages([key])
    const both = [key, (other[0] as { key: number }).key].map((message) => ({ message, variant: 1 }))
    assert.deepEqual(
      (await world.store.loadVariants(both)).map((each) => each.key),
      [both[1]?.message],
    )
    assert.equal((await world.rows(plain)).length, 1)
    const foreign = await world.harness.foreign()
    const left = await foreign.rows(`select n from variant where message = ${key}`)
    await foreign.close()
    assert.deepEqual(left, [])
  })

  test('in a group, plain and planned messages, conflicts and stale ones are each answered for themselves', async (t) => {
    const world = await begin(t, open)
    const { plain, ordered, shaped, publication } = await mixed(world, { eventId: 'evt-1' })
    const bare = await world.publication([plain, shaped])
    const stale = { ...publication, eventId: null, version: publication.version - 1 }
    const once = [{ hash: 'h1', fingerprint: 'f', ttlMs: 60_000 }]
    const twin = { ...publication, eventId: null, once }
    const answers = await world.store.publish([publication, bare, stale, publication, twin, twin])
    assert.deepEqual(
      answers.map((answer) => answer.state),
      ['accepted', 'accepted', 'stale', 'conflict', 'accepted', 'repeated'],
    )
    assert.deepEqual((await world.rows(shaped)).map((row) => row.variant).toSorted(), [1, 1, null])
    assert.equal((await world.rows(ordered)).length, 2)
    assert.deepEqual(await world.store.counts(), { pending: 8, dead: 2, messages: 3, attempts: 0 })
  })

  test('messages stored together are all planned or none', async (t) => {
    const world = await begin(t, open)
    const { shaped, publication } = await mixed(world)
    const stale = { ...publication, version: publication.version - 1 }
    assert.equal((await world.store.publishTogether([publication, stale], null)).state, 'stale')
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 0, attempts: 0 })
    assert.equal((await world.store.publishTogether([publication, publication], null)).state, 'accepted')
    assert.deepEqual(
      (await world.rows(shaped)).map((row) => row.variant),
      [1, 1],
    )
  })

  test('a wide message is expanded as it was planned', async (t) => {
    const world = await begin(t, open)
    const gone = Array.from({ length: queuedAtOnce }, (_, i) => i + 1)
    const { plain, ordered, shaped, dropped, publication } = await mixed(world, { expiresInMs: 60_000 })
    const worker = await world.join()
    const endpoints = [plain.key, shaped.key, ...gone, dropped.key, ordered.key]
    const { key } = await accepted(world, { ...publication, endpoints })
    assert.equal((await world.store.counts()).pending, 2, 'what keeps an order is queued at once')
    for (let chunks = 1; (await world.store.expand(400)).more; chunks++) assert(chunks < 3)
    assertRemaining((await only(world, plain)).expiresInMs ?? undefined, 60_000)
    const { expiresInMs, ...kept } = await only(world, shaped)
    assertRemaining(expiresInMs ?? undefined, 60_000)
    assert.deepEqual(kept, { orderKey: 7, variant: 1 })
    assert.equal((await only(world, ordered)).orderKey, 2 ** 48 - 1)
    assert.equal((await world.store.findDead(dropped.key, key))?.reason, 'overflow')
    assert.deepEqual(await world.store.counts(), { pending: 3, dead: 1, messages: 1, attempts: 0 })
    assert.equal((await world.store.loadVariants([{ message: key, variant: 1 }])).length, 1)
    await world.claim(worker, 3)
  })

  test('many expanding a planned message at once queue each delivery once', async (t) => {
    const world = await begin(t, open)
    const gone = Array.from({ length: queuedAtOnce }, (_, i) => i + 1)
    const { plain, shaped, dropped, publication } = await mixed(world)
    await accepted(world, { ...publication, endpoints: [...publication.endpoints, ...gone] })
    await accepted(world, { ...publication, endpoints: [...publication.endpoints, ...gone] })
    for (let more = true; more; ) {
      const answers = await Promise.all(Array.from({ length: 8 }, async () => (await world.store.expand(70)).more))
      more = answers.some(Boolean)
    }
    while ((await world.store.expand(70)).more);
    for (const endpoint of [plain, shaped]) assert.equal((await world.rows(endpoint)).length, 2)
    assert.deepEqual(await world.rows(dropped), [])
    assert.deepEqual(await world.store.counts(), { pending: 6, dead: 2, messages: 2, attempts: 0 })
  })

  test('dead letters that are too many for one transaction are stored in parts, each once', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoints = await Promise.all(Array.from({ length: 25 }, () => world.endpoint(app)))
    const [taken, ...refusing] = endpoints
    assert(taken)
    const special = refusing.map(({ key }) => ({ endpoint: key, drop: 'unfiltered' as const }))
    const publication = await world.publication(endpoints, { special })
    const messages = Array.from({ length: 200 }, () => publication)
    const letters = messages.length * refusing.length
    assert.equal((await world.store.publishTogether(messages, null)).state, 'accepted')
    let dead = (await world.store.counts()).dead
    assert.ok(dead <= 2000, `${dead} dead letters were stored with the messages`)
    for (let more = true; more; ) {
      more = (await world.store.expand(400)).more
      const now = (await world.store.counts()).dead
      assert.ok(now - dead <= 400, `${now - dead} dead letters were stored together`)
      dead = now
    }
    assert.deepEqual(await world.store.counts(), {
      pending: messages.length,
      dead: letters,
      messages: 200,
      attempts: 0,
    })
    const first = { of: 'dead', app: app.key, endpoint: special[0]?.endpoint ?? 0, from: 0 } as const
    assert.equal(await world.store.countListed({ ...first, until: Number.MAX_SAFE_INTEGER }, 1000), messages.length)
    assert.equal((await world.rows(taken)).length, 100, 'a page of them')
  })

  test('a message within a caller’s transaction is planned too, if that commits', async (t) => {
    const world = await begin(t, open)
    const { app, shaped, dropped, publication } = await mixed(world)
    const within = async (foreign: Foreign) => {
      await foreign.run('begin')
      const answer = await world.store.publishWithin(foreign.connection, app.id, () => publication)
      return answer?.published.state
    }
    const foreign = await world.harness.foreign()
    t.after(() => foreign.close())
    assert.equal(await within(foreign), 'accepted')
    await foreign.run('rollback')
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 0, attempts: 0 })
    assert.equal(await within(foreign), 'accepted')
    await foreign.run('commit')
    assert.equal((await only(world, shaped)).variant, 1)
    assert.deepEqual(await world.store.counts(), { pending: 3, dead: 1, messages: 1, attempts: 0 })
    assert.deepEqual(await world.rows(dropped), [])
  })
}
