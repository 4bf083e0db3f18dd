import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Application } from '../../../src/features/applications/noun.ts'
import { isSigned } from '../../../src/features/audit/store.ts'
import { begin, type Open, type World } from './harness.ts'

const all = { after: 0, until: Number.MAX_SAFE_INTEGER, limit: 100 }

function withPointers(world: World, pointers: string[] | null, app: Application): Promise<Application | undefined> {
  return world.store.updateApplication(app.key, { settings: { subjectPointers: pointers } })
}

export function subjects(open: Open): void {
  test('an application without pointers has no index; with pointers it has a secret that stays', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    assert.equal(await store.findSubjectIndex(app.key), undefined)
    assert.equal((await store.subscriptions(app.key))?.subjects, undefined)
    await withPointers(world, ['/user/id'], app)
    const first = await store.findSubjectIndex(app.key)
    assert.deepEqual(first?.pointers, ['/user/id'])
    assert.match(first?.secret ?? '', /^[0-9A-Za-z]{43}$/)
    assert.ok((first?.since ?? 0) > 0)
    assert.deepEqual((await store.subscriptions(app.key))?.subjects, { pointers: ['/user/id'], secret: first?.secret })

    await world.pass(20)
    await store.updateApplication(app.key, { name: 'Other' })
    assert.deepEqual(await store.findSubjectIndex(app.key), first, 'another field leaves the index alone')
    await withPointers(world, ['/user/id', '/mail'], app)
    const second = await store.findSubjectIndex(app.key)
    assert.equal(second?.secret, first?.secret)
    assert.ok((second?.since ?? 0) > (first?.since ?? 0), 'earlier messages were not indexed by the new pointers')
    await withPointers(world, null, app)
    assert.equal(await store.findSubjectIndex(app.key), undefined)

    const other = await store.createApplication({
      name: 'B',
      uid: null,
      throttleRate: null,
      metadata: {},
      settings: { subjectPointers: ['/id'] },
    })
    const theirs = await store.findSubjectIndex(other.key)
    assert.notEqual(theirs?.secret, first?.secret)
    assert.equal(await store.findSubjectIndex(4711), undefined)
    await store.deleteApplication(other.key)
    assert.equal(await store.findSubjectIndex(other.key), undefined)
  })

  test('a message is found by the hashes that it was published with, in its application', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const stranger = await world.endpoint(await world.application())
    const one = await world.publish([endpoint], { subjects: ['ann', 'bob'] })
    const plain = await world.publish([endpoint])
    const unread = await world.publish([endpoint], { subjects: [''], eventId: 'e' })
    const many = await world.publication([endpoint], { subjects: ['ann'] })
    const together = await store.publishTogether([many, many], null)
    assert(together.state === 'accepted')
    const [third, fourth] = together.messages.map(({ key }) => key)
    await world.publish([stranger], { subjects: ['ann'] })
    const found = (hash: string, change = {}) => store.listSubjectMessages(app.key, hash, { ...all, ...change })
    assert.deepEqual(await found('ann'), [
      { message: one.key, indexed: true },
      { message: unread.key, indexed: false },
      { message: third, indexed: true },
      { message: fourth, indexed: true },
    ])
    assert.deepEqual(await found('bob'), [
      { message: one.key, indexed: true },
      { message: unread.key, indexed: false },
    ])
    assert.deepEqual(await found('eve'), [{ message: unread.key, indexed: false }])
    assert.deepEqual(await found('ann', { after: one.key, limit: 1 }), [{ message: unread.key, indexed: false }])
    assert.deepEqual(await found('ann', { until: plain.key }), [{ message: one.key, indexed: true }])

    const [refused] = await store.publish([
      await world.publication([endpoint], { subjects: ['eve'], eventId: 'e', version: many.version }),
    ])
    assert.equal(refused?.state, 'conflict')
    const [stale] = await store.publish([await world.publication([endpoint], { subjects: ['eve'], version: 0 })])
    assert.equal(stale?.state, 'stale')
    assert.deepEqual(await found('eve'), [{ message: unread.key, indexed: false }], 'a refused publish leaves no trace')
  })

  test('a signature is verified by the public key of the server, for its purpose and its text alone', async (t) => {
    const { store } = await begin(t, open)
    assert.deepEqual(await store.signingKeys(), [])
    const [first, second] = await Promise.all([store.sign('erasure', 'text'), store.sign('erasure', 'text')])
    assert.equal(second.keyId, (await store.signingKeys())[0]?.id)
    assert.equal(first.keyId, second.keyId)
    assert.equal(isSigned('erasure', 'text', first), true)
    assert.equal(isSigned('checkpoint', 'text', first), false)
    assert.equal(isSigned('erasure', 'texT', first), false)
    assert.equal(isSigned('erasure', 'text', { ...first, publicKey: 'AAAA' }), false)
    assert.equal(isSigned('erasure', 'text', { ...first, signature: '' }), false)
    const [key] = await store.signingKeys()
    assert.deepEqual([key?.id, key?.publicKey], [first.keyId, first.publicKey])
  })
}
