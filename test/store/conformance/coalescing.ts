import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Matcher } from '../../../src/domain/match.ts'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import { closingMs } from '../../../src/store/maintenance.ts'
import { queuedAtOnce } from '../../../src/store/plan.ts'
import type { Publication } from '../../../src/store/store.ts'
import { type Accepted, assertRemaining, begin, type Open, type World } from './harness.ts'

/** Longer than the test takes on any machine: a window that ends begins another. */
const windowMs = 3_600_000

/** How a message of this kind is published to these endpoints. */
function ofKind(key: string, ...endpoints: Endpoint[]): Pick<Publication, 'special'> {
  return { special: endpoints.map((endpoint) => ({ endpoint: endpoint.key, coalesce: { key, windowMs } })) }
}

/** Publishes one message of a kind to one endpoint. */
function publish(world: World, endpoint: Endpoint, key = 'a', change: Partial<Publication> = {}): Promise<Accepted> {
  return world.publish([endpoint], { ...ofKind(key, endpoint), ...change })
}

function queued(world: World, endpoint: Endpoint, { key }: Accepted) {
  return world.store.findQueued({ endpoint: endpoint.key, message: key })
}

async function coalescedInto(world: World, endpoint: Endpoint, { key }: Accepted): Promise<string | null | undefined> {
  const [found] = await world.store.findCoalesced([{ endpoint: endpoint.key, message: key }])
  return found?.into
}

/** Lets every window and everything timed be nearer by so much. */
async function advance(world: World, ms: number): Promise<void> {
  await world.harness.sql(`update pending set due_at = due_at - ${ms}, since = since - ${ms} where class = 1`)
  await world.harness.sql(`update coalescing set due_at = due_at - ${ms}`)
}

export function coalescing(open: Open): void {
  test('the first of a kind waits for the end of its window, and each later one takes its place and its instant', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const first = await publish(world, endpoint)
    assert.equal(first.merged, undefined)
    const waits = await queued(world, endpoint, first)
    assert.equal(waits?.class, 1)
    assert.equal(waits?.attempts, 0)
    const [read] = await world.store.readDue([{ endpoint: endpoint.key, class: 1, after: null, limit: 10 }])
    assertRemaining(read?.nextInMs, windowMs)

    const second = await publish(world, endpoint)
    assert.deepEqual(second.merged, [endpoint.key], 'its queue has not grown')
    assert.deepEqual(await queued(world, endpoint, second), waits)
    const third = await publish(world, endpoint)
    assert.deepEqual(await queued(world, endpoint, third), waits)

    assert.equal(await queued(world, endpoint, first), undefined)
    assert.equal(await coalescedInto(world, endpoint, first), second.id)
    assert.equal(await coalescedInto(world, endpoint, second), third.id)
    assert.equal(await coalescedInto(world, endpoint, third), undefined)
    assert.equal((await world.store.counts()).pending, 1)
  })

  test('its lane wakes at the end of the window, and what is read then is as old as that', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    await publish(world, endpoint)
    const last = await publish(world, endpoint)
    await world.assertNothingToClaim(worker)
    await advance(world, windowMs)
    await world.harness.sql('update lane set due_at = 0')
    await world.claim(worker)
    const row = await world.head(endpoint, 1)
    assert.equal(row.message, last.key)
    assert.ok(row.ageMs < 10_000, 'what it waited for its window does not count against its age')
  })

  test('only what is of one kind at one endpoint becomes one', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [one, other] = [await world.endpoint(app), await world.endpoint(app)]
    const kept = [await publish(world, one, 'a'), await publish(world, one, 'b'), await publish(world, other, 'a')]
    assert.equal((await world.store.counts()).pending, 3)
    for (const [i, endpoint] of [one, one, other].entries()) {
      assert.equal(await coalescedInto(world, endpoint, kept[i] as Accepted), undefined)
    }
  })

  test('a message may be coalesced at some of its endpoints and go its way at the others', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [calm, keen] = [await world.endpoint(app), await world.endpoint(app)]
    const both = [calm, keen]
    const first = await world.publish(both, ofKind('a', calm))
    const second = await world.publish(both, ofKind('a', calm))
    assert.equal((await world.rows(keen)).length, 2)
    assert.equal(await coalescedInto(world, calm, first), second.id)
    assert.equal(await coalescedInto(world, keen, first), undefined)
  })

  test('a window about to end takes nothing in any more: the next message opens another', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const first = await publish(world, endpoint)
    await advance(world, windowMs - closingMs + 100)
    const second = await publish(world, endpoint)
    assert.equal(second.merged, undefined)
    assert.equal(await coalescedInto(world, endpoint, first), undefined)
    assert.ok(await queued(world, endpoint, first))
    const third = await publish(world, endpoint)
    assert.equal(await coalescedInto(world, endpoint, second), third.id, 'the new window is open')
    assert.equal((await world.store.counts()).pending, 2)
  })

  test('a window that seems to end later than it can is none', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const first = await publish(world, endpoint)
    await advance(world, -3_600_000)
    const second = await publish(world, endpoint)
    assert.equal(await coalescedInto(world, endpoint, first), undefined)
    const [read] = await world.store.readDue([{ endpoint: endpoint.key, class: 1, after: null, limit: 10 }])
    assertRemaining(read?.nextInMs, windowMs)
    assert.ok(await queued(world, endpoint, second))
  })

  test('of several of a kind published together, only the last waits', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const before = await publish(world, endpoint)
    const publication = await world.publication([endpoint], ofKind('a', endpoint))
    const other = { ...publication, ...ofKind('b', endpoint) }
    const group = await world.store.publish([publication, other, publication, publication, other])
    const answers = group.filter((answer) => answer.state === 'accepted')
    assert.equal(answers.length, group.length)
    const [a1, b1, a2, a3, b2] = answers as [Accepted, Accepted, Accepted, Accepted, Accepted]
    assert.ok(await queued(world, endpoint, a3))
    assert.ok(await queued(world, endpoint, b2))
    assert.equal((await world.store.counts()).pending, 2)
    for (const overtaken of [before, a1, a2, b1]) {
      assert.equal(typeof (await coalescedInto(world, endpoint, overtaken)), 'string')
      assert.equal(await queued(world, endpoint, overtaken), undefined)
    }
    const grown = answers.filter(({ merged }) => merged === undefined).length
    assert.equal(grown, 1, 'one queue grew by one: that of the new kind')

    const batch = await world.store.publishTogether([publication, publication], null)
    assert(batch.state === 'accepted')
    assert.equal((await world.store.counts()).pending, 2)
    assert.ok(await queued(world, endpoint, batch.messages[1] as Accepted))
    assert.equal(typeof (await coalescedInto(world, endpoint, a3)), 'string')
  })

  test('a dropped delivery is not coalesced, and a refused message replaces nothing', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const first = await publish(world, endpoint)
    const coalesce = { key: 'a', windowMs }
    await world.publish([endpoint], { special: [{ endpoint: endpoint.key, drop: 'overflow', coalesce }] })
    const stale = { ...(await world.publication([endpoint], ofKind('a', endpoint))), version: -1 }
    assert.deepEqual(await world.store.publish([stale]), [{ state: 'stale' }])
    assert.ok(await queued(world, endpoint, first))
    assert.deepEqual(await world.store.counts(), { pending: 1, dead: 1, messages: 2, attempts: 0 })
  })

  test('a delivery that was replayed meanwhile is not taken out again, and the window continues', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const first = await publish(world, endpoint)
    const waits = await queued(world, endpoint, first)
    await world.store.replay([{ endpoint: endpoint.key, message: first.key }])
    const second = await publish(world, endpoint)
    assert.equal(second.merged, undefined)
    assert.equal((await queued(world, endpoint, first))?.class, 2)
    assert.equal(await coalescedInto(world, endpoint, first), undefined)
    assert.equal((await queued(world, endpoint, second))?.dueAt, waits?.dueAt)
  })

  test('a coalesced delivery can be replayed, and its message expunged', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const first = await publish(world, endpoint)
    const second = await publish(world, endpoint)
    const delivery = { endpoint: endpoint.key, message: first.key }
    assert.deepEqual(await world.store.replay([delivery]), [delivery])
    assert.equal((await queued(world, endpoint, first))?.class, 2)
    await world.store.expungeMessages([second.key])
    assert.equal(await queued(world, endpoint, second), undefined)
    const third = await publish(world, endpoint)
    assert.ok(await queued(world, endpoint, third), 'after an expunged message the window goes on')
    assert.equal(await coalescedInto(world, endpoint, second), undefined)
  })

  test('many publishers at once leave one waiting, and every other gave way to one that came later', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoints = await Promise.all(Array.from({ length: 4 }, () => world.endpoint(app)))
    const kinds = ['a', 'b', 'c']
    // Each in an order of its own: two publishes that take locks in that order deadlock.
    const publishing = Array.from({ length: 60 }, async (_, n) => {
      const turned = [...endpoints.slice(n % 4), ...endpoints.slice(0, n % 4)]
      const special = turned.map(({ key }, i) => {
        return { endpoint: key, coalesce: { key: kinds[(n + i) % kinds.length] as string, windowMs } }
      })
      return { special, ...(await world.publish(turned, { special })) }
    })
    const published = await Promise.all(publishing)
    assert.equal((await world.store.counts()).pending, endpoints.length * kinds.length)
    for (const endpoint of endpoints) {
      for (const kind of kinds) {
        const alike = published.filter(({ special }) => {
          return special.some((each) => each.endpoint === endpoint.key && each.coalesce.key === kind)
        })
        const into = await Promise.all(alike.map((each) => coalescedInto(world, endpoint, each)))
        const waiting = await Promise.all(alike.map((each) => queued(world, endpoint, each)))
        assert.deepEqual(
          into.map((id) => id === undefined),
          waiting.map((row) => row !== undefined),
          'each either waits or gave way',
        )
        assert.equal(into.filter((id) => id === undefined).length, 1)
        assert.equal(new Set(into).size, into.length, 'each gave way to another')
      }
    }
  })

  test('a message for very many endpoints gives way to what came after it, and what came before it gives way', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [ahead, behind, alone] = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    const gone = Array.from({ length: queuedAtOnce }, (_, i) => i + 1)
    const earlier = await publish(world, ahead)
    const all = [ahead, behind, alone]
    const wide = await world.publish([], {
      app: app.key,
      endpoints: [...gone, ...all.map(({ key }) => key)],
      ...ofKind('a', ...all),
    })
    const later = await publish(world, behind)
    while ((await world.store.expand(5000)).more);
    assert.equal(await coalescedInto(world, ahead, earlier), wide.id)
    assert.ok(await queued(world, ahead, wide))
    assert.equal(await coalescedInto(world, behind, wide), later.id)
    assert.ok(await queued(world, behind, later))
    assert.equal((await queued(world, alone, wide))?.class, 1)
    assert.equal((await world.store.counts()).pending, 3)
  })

  test('a transaction of the caller coalesces nothing, because it may stay open for long', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    const endpoint = await world.endpoint(app)
    const first = await publish(world, endpoint)
    const foreign = await world.harness.foreign()
    t.after(() => foreign.close())
    await foreign.run(world.store.dialect === 'sqlite' ? 'begin immediate' : 'begin')
    const publication = await world.publication([endpoint], ofKind('a', endpoint))
    const enlisted = await world.store.publishWithin(foreign.connection, 'acme', (_, { version, list }) => {
      return { ...publication, version, endpoints: new Matcher(list).match('video.trending', null) }
    })
    await foreign.run('commit')
    enlisted?.committed()
    assert.equal(enlisted?.published.state, 'accepted')
    assert.ok(await queued(world, endpoint, first))
    assert.equal((await world.rows(endpoint)).length, 1)
  })

  test('a message does not carry along what it was of, unless it is yet to be queued', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const foreign = await world.harness.foreign()
    t.after(() => foreign.close())
    await publish(world, endpoint)
    assert.deepEqual(await foreign.rows('select plan from message'), [{ plan: null }])
  })

  test('windows that have ended are forgotten, a few at a time', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    for (const kind of ['a', 'b', 'c']) await publish(world, endpoint, kind)
    assert.equal(await world.store.sweepWindows(10), 0)
    await advance(world, windowMs)
    const next = await publish(world, endpoint, 'd')
    assert.equal(await world.store.sweepWindows(2), 2)
    assert.equal(await world.store.sweepWindows(2), 1)
    assert.equal(await world.store.sweepWindows(2), 0)
    const last = await publish(world, endpoint, 'd')
    assert.equal(await coalescedInto(world, endpoint, next), last.id, 'one that is open stays')
  })

  test('coalesced deliveries are listed in the order asked for', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const first = await publish(world, endpoint)
    const second = await publish(world, endpoint)
    const of = (message: number) => ({ endpoint: endpoint.key, message })
    const found = await world.store.findCoalesced([of(second.key), of(first.key), of(1)])
    assert.deepEqual(
      found.map((each) => each?.into),
      [undefined, second.id, undefined],
    )
    assert.ok((found[1]?.at ?? 0) > 0)
    assert.deepEqual(await world.store.findCoalesced([]), [])
  })
}
