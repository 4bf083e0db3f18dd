import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { storeTraits } from '../../src/domain/store-traits.ts'
import { GroupCommit } from '../../src/intake/group-commit.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemRandom, systemRandomText } from '../../src/runtime/random.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { Publication, Store } from '../../src/store/store.ts'
import { testVault } from '../store/test-vault.ts'

/** Publishes through a real store in memory; `answer` stands for the code that each answer is handed to. */
async function createWorld(answer: (name: string) => void, store?: Pick<Store, 'publish'>) {
  const context = { clock: systemClock, random: systemRandom, randomText: systemRandomText, vault: testVault }
  const real = await openSqliteStore(context, { path: ':memory:', role: 'owner' })
  const { key } = await real.createApplication({ name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} })
  const { version = 0 } = (await real.subscriptions(key)) ?? {}
  const refused = new Map<string, unknown>()
  const groups = new GroupCommit({
    clock: systemClock,
    store: { traits: storeTraits.sqlite, publish: (publications) => (store ?? real).publish(publications) },
  })
  const publication: Publication = {
    ...{ app: key, version, eventType: 'a', eventId: null, channels: null, contentType: 'text/plain', delayMs: 0 },
    ...{ tags: null, headers: null, body: Buffer.from('x'), payloadForMs: null, expiresInMs: null },
    ...{ orderingKey: null, endpoints: [], once: [] },
  }
  const add = (name: string) =>
    groups.add({
      publication,
      since: systemClock.steady(),
      stored: () => answer(name),
      failed: () => answer(name),
      refuse: (error) => refused.set(name, error),
    })
  return { add, refused, store: real }
}

describe('a fault in the answer to one message of a group', () => {
  for (const outcome of ['stored', 'not stored'] as const) {
    test(`that was ${outcome} refuses that message; the others and later groups are answered`, async () => {
      const answered: string[] = []
      const fault = new Error('a fault')
      const done = Promise.withResolvers<void>()
      const failing: Pick<Store, 'publish'> = { publish: () => Promise.reject(new Error('the store failed')) }
      const world = await createWorld(
        (name) => {
          if (name === 'b') throw fault
          answered.push(name)
          if (name === 'c') world.add('d')
          if (name === 'd') done.resolve()
        },
        outcome === 'stored' ? undefined : failing,
      )
      for (const name of ['a', 'b', 'c']) world.add(name)
      await done.promise
      assert.deepEqual(answered, ['a', 'c', 'd'])
      assert.deepEqual([...world.refused], [['b', fault]])
      assert.equal((await world.store.counts()).messages, outcome === 'stored' ? 4 : 0)
    })
  }

  test('a store that throws before it answers a promise fails the group and not the process', async () => {
    const done = Promise.withResolvers<void>()
    const throwing: Pick<Store, 'publish'> = {
      publish() {
        throw new Error('the store threw')
      },
    }
    const world = await createWorld((name) => (name === 'b' ? done.resolve() : world.add('b')), throwing)
    world.add('a')
    await done.promise
    assert.equal(world.refused.size, 0)
  })
})

describe('messages that arrived while a group was being stored', () => {
  /** Stores a group of four, during which `later` more messages arrive; answers what happened in which order. */
  async function orderWith(later: number): Promise<string[]> {
    const events: string[] = []
    const done = Promise.withResolvers<void>()
    const stored = Promise.withResolvers<void>()
    let groups = 0
    const store: Pick<Store, 'publish'> = {
      async publish(publications) {
        events.push(`store ${publications.length}`)
        if (++groups === 1) await stored.promise
        return publications.map(() => ({ state: 'accepted', key: 1, id: 'msg_1' }))
      },
    }
    const world = await createWorld((name) => {
      events.push(`answer ${name}`)
      if (name === `later ${later}`) done.resolve()
    }, store)
    for (const name of ['a', 'b', 'c', 'd']) world.add(name)
    while (groups === 0) await new Promise(setImmediate)
    for (let n = 1; n <= later; n++) world.add(`later ${n}`)
    stored.resolve()
    await done.promise
    return events
  }
  const answers = ['answer a', 'answer b', 'answer c', 'answer d']

  test('are stored before that group is answered, so that the disk works meanwhile', async () => {
    assert.deepEqual(await orderWith(2), ['store 4', 'store 2', ...answers, 'answer later 1', 'answer later 2'])
  })

  test('wait for more when they are few', async () => {
    assert.deepEqual(await orderWith(1), ['store 4', ...answers, 'store 1', 'answer later 1'])
  })
})
