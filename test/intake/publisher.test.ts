import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { AppError } from '../../src/domain/app-error.ts'
import { storeTraits } from '../../src/domain/store-traits.ts'
import { Admission } from '../../src/intake/admission.ts'
import type { Envelope } from '../../src/intake/publication.ts'
import { Publisher } from '../../src/intake/publisher.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import { observed } from '../../src/metrics/observed-store.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemRandom, systemRandomText } from '../../src/runtime/random.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { type Publication, type Store, StoreTrouble } from '../../src/store/store.ts'
import { plainEndpoint } from '../store/conformance/harness.ts'
import { testVault } from '../store/test-vault.ts'

/** A real store in memory whose publishes can be watched, held up and made to fail. */
class World {
  readonly groups: (readonly Publication[])[] = []
  before: () => Promise<void> = async () => {}
  readonly store: Store
  readonly publisher: Publisher
  readonly ledger: Ledger
  readonly admission: Admission

  constructor(store: Store, dialect: Store['dialect'] = 'sqlite') {
    this.store = store
    const roomy = { perEndpoint: 1e9, perApplication: 1e9, server: 1e9, commitDelayMs: 1e9 }
    this.ledger = new Ledger({ store, clock: systemClock, isTold: true })
    this.admission = new Admission(roomy, this.ledger)
    this.publisher = new Publisher({
      clock: systemClock,
      admission: this.admission,
      // Only these methods are called.
      store: observed(
        {
          traits: storeTraits[dialect],
          findApplication: (ref) => store.findApplication(ref),
          subscriptions: (app) => store.subscriptions(app),
          publishWithin: (...given) => store.publishWithin(...given),
          publishTogether: (publications, once) => store.publishTogether(publications, once),
          publish: async (publications) => {
            this.groups.push(publications)
            await this.before()
            return store.publish(publications)
          },
        } as Store,
        systemClock,
        [this.ledger, this.admission],
      ),
    })
  }

  publish(overrides: Partial<Envelope> = {}, body = '{}', app = 'acme'): Promise<{ key: number; id: string }> {
    const envelope = { eventType: 'a', eventId: null, channels: null, contentType: 'application/json', delayMs: 0 }
    return this.publisher.publish(app, { ...envelope, ...overrides }, Buffer.from(body))
  }

  async addEndpoint(eventTypes: string[] | null = null): Promise<number> {
    const { key } = (await this.store.findApplication('acme')) as { key: number }
    const endpoint = await this.store.createEndpoint(key, { ...plainEndpoint, eventTypes })
    return endpoint.key
  }
}

async function createWorld(dialect?: Store['dialect']): Promise<World> {
  const context = { clock: systemClock, random: systemRandom, randomText: systemRandomText, vault: testVault }
  const store = await openSqliteStore(context, { path: ':memory:', role: 'owner' })
  await store.createApplication({ name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} })
  return new World(store, dialect)
}

/** A door that `pass` waits at until it is opened. */
function door(): { open: () => void; pass: () => Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { open: resolve, pass: () => promise }
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

describe('publishing', () => {
  test('messages of one turn share a transaction, and each gets its own id', async () => {
    const world = await createWorld()
    await world.publish()
    world.groups.length = 0
    const accepted = await Promise.all(Array.from({ length: 50 }, () => world.publish()))
    assert.deepEqual(
      world.groups.map((group) => group.length),
      [50],
    )
    assert.equal(new Set(accepted.map(({ id }) => id)).size, 50)
    assert.equal((await world.store.counts()).messages, 51)
  })

  test('a group takes at most 512 messages and 8 MiB, but always one', async () => {
    const world = await createWorld()
    await world.publish()
    world.groups.length = 0
    await Promise.all(Array.from({ length: 600 }, () => world.publish()))
    assert.deepEqual(
      world.groups.map((group) => group.length),
      [512, 88],
    )
    world.groups.length = 0
    const large = `"${'x'.repeat(5 * 1024 * 1024)}"`
    await Promise.all([world.publish({}, large), world.publish({}, large), world.publish({}, large + large)])
    assert.deepEqual(
      world.groups.map((group) => group.length),
      [1, 1, 1],
    )
  })

  for (const [dialect, atOnce] of [
    ['sqlite', [1]],
    ['postgres', [1, 1, 1, 1]],
  ] as const) {
    test(`on ${dialect}, at most ${atOnce.length} under way at once, and what arrives meanwhile gathers`, async () => {
      const world = await createWorld(dialect)
      await world.publish()
      world.groups.length = 0
      const held = door()
      world.before = held.pass
      const published: Promise<unknown>[] = []
      for (let i = 0; i < 10; i++) {
        published.push(world.publish())
        await turns(2)
      }
      assert.deepEqual(
        world.groups.map((group) => group.length),
        atOnce,
      )
      held.open()
      await Promise.all(published)
      assert.deepEqual(
        world.groups.map((group) => group.length),
        [...atOnce, 10 - atOnce.length],
      )
    })
  }

  test('a group has at most 1,000 deliveries, not counting those of wide messages, and one begins per turn', async () => {
    const world = await createWorld('postgres')
    for (let i = 0; i < 400; i++) await world.addEndpoint()
    await world.publish()
    world.groups.length = 0
    const held = door()
    world.before = held.pass
    const published = Array.from({ length: 5 }, () => world.publish())
    const begun: number[] = []
    for (let i = 0; i < 4; i++) {
      await turns(1)
      begun.push(world.groups.length)
    }
    held.open()
    await Promise.all(published)
    assert.deepEqual(
      world.groups.map((group) => group.length),
      [2, 2, 1],
    )
    assert.deepEqual(begun, [1, 2, 3, 3])
    for (let i = 0; i < 601; i++) await world.addEndpoint()
    await world.publish()
    world.groups.length = 0
    await Promise.all([world.publish(), world.publish(), world.publish()])
    assert.deepEqual(
      world.groups.map((group) => group.length),
      [3],
    )
  })

  test('a message goes to the endpoints that match it', async () => {
    const world = await createWorld()
    const all = await world.addEndpoint()
    const videos = await world.addEndpoint(['video.*'])
    const { key } = await world.publish({ eventType: 'video.trending' })
    await world.publish({ eventType: 'user.signup' })
    assert.deepEqual(
      world.groups.flat().map(({ endpoints }) => [...endpoints].sort()),
      [[all, videos].sort(), [all]],
    )
    assert.equal((await world.store.counts()).pending, 3)
    assert.deepEqual(await world.store.loadMessages([key]).then(([m]) => m?.eventType), 'video.trending')
  })

  test('an endpoint added after the application was cached gets the very next message', async () => {
    const world = await createWorld()
    await world.publish()
    await world.addEndpoint()
    await world.publish()
    assert.equal((await world.store.counts()).pending, 1)
    assert.equal(world.groups.length, 3, 'one publish was stale and made anew')
  })

  test('endpoints that change between matching and storing make the message be matched again, together', async () => {
    const world = await createWorld()
    await world.publish()
    let changes = 0
    world.before = async () => {
      if (changes++ < 2) await world.addEndpoint()
    }
    await Promise.all(Array.from({ length: 20 }, () => world.publish()))
    assert.equal((await world.store.counts()).pending, 40)
  })

  test('endpoints that never stop changing end in unavailable, with nothing stored', async () => {
    const world = await createWorld()
    world.before = async () => void (await world.addEndpoint())
    await assert.rejects(world.publish(), { name: 'AppError', code: 'unavailable' })
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 0, messages: 0, attempts: 0 })
    assert.equal(world.groups.length, 8)
  })
})

describe('a refused publish', () => {
  test('for an unknown application is not_found, and stays so until the application exists', async () => {
    const world = await createWorld()
    await assert.rejects(world.publish({}, '{}', 'nobody'), { code: 'not_found' })
    await world.store.createApplication({ name: 'N', uid: 'nobody', throttleRate: null, metadata: {} })
    await world.publish({}, '{}', 'nobody')
  })

  test('with a used eventId is a conflict that names the message, also within one group', async () => {
    const world = await createWorld()
    const first = await world.publish({ eventId: 'once' })
    await assert.rejects(world.publish({ eventId: 'once' }), { code: 'conflict', message: new RegExp(first.id) })
    const both = await Promise.allSettled([world.publish({ eventId: 'two' }), world.publish({ eventId: 'two' })])
    assert.deepEqual(
      both.map(({ status }) => status),
      ['fulfilled', 'rejected'],
    )
    assert.equal((await world.store.counts()).messages, 2)
  })

  test('by a store in trouble is unavailable for the whole group, and the next group is tried', async () => {
    const world = await createWorld()
    await world.publish()
    world.before = async () => {
      throw new StoreTrouble('disk full')
    }
    const refused = await Promise.allSettled([world.publish(), world.publish()])
    for (const result of refused) {
      assert.equal(result.status, 'rejected')
      assert.ok(result.reason instanceof AppError && result.reason.code === 'unavailable')
    }
    world.before = async () => {}
    await world.publish()
    assert.equal((await world.store.counts()).messages, 2)
  })

  test('while its application is looked up is unavailable, and looked up again the next time', async () => {
    const world = await createWorld()
    const { findApplication } = world.store
    world.store.findApplication = async () => {
      throw new StoreTrouble('busy')
    }
    await assert.rejects(world.publish(), { code: 'unavailable' })
    world.store.findApplication = findApplication
    await world.publish()
  })

  test('by a bug is that very error, not one a caller could act on', async () => {
    const world = await createWorld()
    const bug = new TypeError('planted')
    world.before = async () => {
      throw bug
    }
    await assert.rejects(world.publish(), (error) => error === bug)
  })
})

describe('a request with a key of its own', () => {
  const request = { hash: 'request-1', fingerprint: 'body', ttlMs: 60_000 }

  test('is refused while the first is under way, and gets the same answer afterwards', async () => {
    const world = await createWorld()
    await world.publish()
    const held = door()
    world.before = held.pass
    const envelope = { eventType: 'a', eventId: null, channels: null, contentType: 'text/plain', delayMs: 0 }
    const publish = () => world.publisher.publish('acme', envelope, Buffer.from('x'), request)
    const first = publish()
    await turns(2)
    await assert.rejects(publish(), { code: 'request_in_flight' })
    held.open()
    const accepted = await first
    assert.equal((await publish()).id, accepted.id)
    await assert.rejects(
      world.publisher.publish('acme', envelope, Buffer.from('y'), { ...request, fingerprint: 'other' }),
      { code: 'validation' },
    )
    assert.equal((await world.store.counts()).messages, 2)
  })

  test('that failed for want of the store may be made again', async () => {
    const world = await createWorld()
    world.before = async () => {
      throw new StoreTrouble('disk full')
    }
    const envelope = { eventType: 'a', eventId: null, channels: null, contentType: 'text/plain', delayMs: 0 }
    const publish = () => world.publisher.publish('acme', envelope, Buffer.from('x'), request)
    await assert.rejects(publish(), { code: 'unavailable' })
    world.before = async () => {}
    await publish()
    assert.equal((await world.store.counts()).messages, 1)
  })
})

describe('publishing together', () => {
  const item = (eventId: string | null = null) => ({
    envelope: { eventType: 'a', eventId, channels: null, contentType: 'text/plain', delayMs: 0 },
    body: Buffer.from('x'),
  })

  test('matches again when the endpoints changed, and stores all of it', async () => {
    const world = await createWorld()
    await world.publisher.publishTogether('acme', [item()])
    await world.addEndpoint()
    assert.equal((await world.publisher.publishTogether('acme', [item(), item()])).length, 2)
    assert.deepEqual(await world.store.counts(), { pending: 2, dead: 0, messages: 3, attempts: 0 })
  })

  test('is refused whole, by name', async () => {
    const world = await createWorld()
    await assert.rejects(world.publisher.publishTogether('nobody', [item()]), { code: 'not_found' })
    await world.publisher.publishTogether('acme', [item('e')])
    await assert.rejects(world.publisher.publishTogether('acme', [item(), item('e')]), {
      code: 'conflict',
      message: /^Message 1: /,
    })
    assert.equal((await world.store.counts()).messages, 1)
  })

  test('counts as waiting only the deliveries that wait', async () => {
    const world = await createWorld()
    const { key } = (await world.store.findApplication('acme')) as { key: number }
    const coalesce = { key: null, windowMs: 3_600_000 }
    await world.store.createEndpoint(key, { ...plainEndpoint, flow: { coalesce } })
    const waiting = async () => {
      const { pending } = await world.store.counts()
      assert.equal(world.ledger.waiting, pending)
      return pending
    }
    await world.publisher.publishTogether('acme', [item(), item(), item()])
    assert.equal(await waiting(), 1, 'each replaced the one before')
    await world.publish()
    assert.equal(await waiting(), 1)
    const arrival = { hash: 'once', fingerprint: '', ttlMs: 60_000 }
    const repeated = { ...item(), envelope: { ...item().envelope, eventType: 'b', arrival } }
    await world.publisher.publishTogether('acme', [repeated])
    assert.equal(await waiting(), 2)
    await world.publisher.publishTogether('acme', [repeated, item()])
    assert.equal(await waiting(), 2)
  })
})
