import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../../src/runtime/clock.ts'
import { FileOwnedError } from '../../../src/store/sqlite/file-use.ts'
import { openSqliteStore } from '../../../src/store/sqlite/open.ts'
import type { Store } from '../../../src/store/store.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { plainEndpoint } from '../conformance/harness.ts'
import { contextWith, type Place, placeFor } from '../sqlite-harness.ts'
import { Child } from './child.ts'

async function openReal(place: Place, role: 'owner' | 'guest'): Promise<Store> {
  const store = await openSqliteStore(contextWith(systemClock), { path: place.path, role })
  place.closeFirst(() => store.close())
  return store
}

test('a second owner is refused, and the error names the owner of the file', async (t) => {
  const place = placeFor(t)
  const owner = new Child(place, 'owner')
  assert.equal(await owner.line(), 'open')
  await assert.rejects(openReal(place, 'owner'), (error) => {
    assert(error instanceof FileOwnedError)
    assert.equal(error.owner, `pid ${owner.process.pid} for the test`)
    assert(error.message.includes(place.path))
    return true
  })
})

test('a second owner in the same process is refused too, and the first one is not disturbed', async (t) => {
  const place = placeFor(t)
  const first = await openReal(place, 'owner')
  await first.join({ leaseMs: 1000, description: 'the first' })
  await assert.rejects(openReal(place, 'owner'), { name: 'FileOwnedError', owner: 'the first' })
  // Closing the refused handle must not drop the lock.
  await assert.rejects(openReal(place, 'owner'), { name: 'FileOwnedError' })
  await first.ping()
  await first.close()
  await openReal(place, 'owner')
})

test('an owner that was killed leaves the file free, its lanes unclean and itself fenced', async (t) => {
  const place = placeFor(t)
  const owner = new Child(place, 'owner')
  assert.equal(await owner.line(), 'open')
  const guest = await openReal(place, 'guest')
  const { key: app } = await guest.createApplication({ name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} })
  const endpoint = await guest.createEndpoint(app, plainEndpoint)
  owner.tell('publish')
  assert.equal(await owner.line(), 'accepted')
  // The child joined first, so its worker is 1. Claim in its name: it will die owning the lane.
  const { lanes } = await guest.claim(1, 1)
  assert.equal(lanes.length, 1)

  await owner.kill()
  const heir = await openReal(place, 'owner')
  assert.equal(await heir.settle(1, [], { holds: [], disable: [], health: [] }), 'fenced')
  const worker = await heir.join({ leaseMs: 1000, description: 'the heir' })
  const claim = await heir.claim(worker, 1)
  assert.deepEqual(
    claim.lanes.map((lane) => [lane.endpoint.key, lane.clean]),
    [[endpoint.key, false]],
  )
})

test('the owner notices each message that a guest publishes', async (t) => {
  const place = placeFor(t)
  const owner = await openReal(place, 'owner')
  const { key: app } = await owner.createApplication({ name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} })
  await owner.createEndpoint(app, plainEndpoint)
  const worker = await owner.join({ leaseMs: 60_000, description: 'owner' })
  const guest = new Child(place, 'guest')
  assert.equal(await guest.line(), 'open')

  let noticed = Promise.withResolvers<void>()
  owner.watch({ rows: (endpoints) => endpoints ?? noticed.resolve(), lanes() {}, settings() {} })
  for (let i = 0; i < 3; i++) {
    noticed = Promise.withResolvers<void>()
    guest.tell('publish')
    assert.equal(await guest.line(), 'accepted')
    await noticed.promise
  }
  assert.equal((await owner.claim(worker, 1)).lanes.length, 1)
})

test("a look every 20 ms tells a guest's commits from the owner's own", async (t) => {
  const place = placeFor(t)
  const clock = new VirtualClock()
  const owner = await openSqliteStore(contextWith(clock), { path: place.path, role: 'owner' })
  place.closeFirst(() => owner.close())
  const guest = await openReal(place, 'guest')
  const heard: string[] = []
  owner.watch({
    rows: (endpoints) => heard.push(`rows ${endpoints}`),
    lanes: () => heard.push('lanes'),
    settings: (endpoints) => heard.push(`settings ${endpoints}`),
  })
  await owner.createApplication({ name: 'Own', uid: null, throttleRate: null, metadata: {} })
  await clock.advance(100)
  assert.deepEqual(heard, [])
  await guest.createApplication({ name: 'Foreign', uid: null, throttleRate: null, metadata: {} })
  await clock.advance(20)
  assert.deepEqual(heard, ['rows undefined', 'lanes', 'settings undefined'])
  await clock.advance(100)
  assert.equal(heard.length, 3)
})

test('a new owner goes on at once with the task that the last one held', async (t) => {
  const place = placeFor(t)
  const first = await openReal(place, 'owner')
  const { id } = await first.createTask({ app: null, work: { type: 'event-type.aggregate', input: {} }, data: {} })
  assert.equal((await first.takeTask(60_000))?.id, id)
  await first.close()
  const second = await openReal(place, 'owner')
  assert.equal((await second.takeTask(60_000))?.id, id)
})
