import assert from 'node:assert/strict'
import { test } from 'node:test'
import { replay } from '../../../src/domain/delivery.ts'
import type { FilePosition } from '../../../src/features/dead-letters/store.ts'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import { begin, type Open, type World } from './harness.ts'

const dead = { state: 'dead', reason: 'exhausted' } as const
const start: FilePosition = { part: 1, bytes: 0, reserved: 0 }

export function deadFiling(open: Open): void {
  test('letters are kept for a file from the moment that filing begins', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await worldWithLane(world)
    await die(world, worker, endpoint)
    assert.equal(await world.store.beginDeadFiling(), true)
    assert.equal(await world.store.beginDeadFiling(), false)
    assert.deepEqual(await world.store.listUnfiled(10), [])

    const message = await die(world, worker, endpoint)
    const [head] = await world.store.listUnfiled(10)
    assert(head)
    const { bytes, key, ...summary } = head
    assert.equal(bytes, 3)
    const letter = await world.store.findDead(endpoint.key, message)
    assert(letter)
    assert.deepEqual({ ...summary, response: letter.response }, letter)
    assert.deepEqual(await world.store.loadUnfiled([key]), [{ ...letter, key }])
    assert.equal((await world.store.counts()).dead, 2)
  })

  test('a letter that is replayed, purged or dead once more still waits for the file', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await worldWithLane(world)
    await world.store.beginDeadFiling()
    const message = await die(world, worker, endpoint)
    await world.store.replay([{ endpoint: endpoint.key, message }])
    assert.equal((await world.store.counts()).dead, 0)
    assert.equal((await world.store.listUnfiled(10)).length, 1)
    await world.pass(5)
    await world.settle(worker, world.settlement(endpoint, await world.head(endpoint, replay), dead))
    await world.harness.sql('delete from dead')
    const waiting = await world.store.listUnfiled(10)
    assert.deepEqual(
      waiting.map((letter) => letter.message),
      [message, message],
    )
    assert.equal((await world.store.listUnfiled(1))[0]?.key, waiting[0]?.key)
  })

  test('a delivery that ends in a resting lane, or at its publish, is kept for the file', async (t) => {
    const world = await begin(t, open)
    await world.store.beginDeadFiling()
    // Paused, so that no wake-up of the lane has it locked, for then its deliveries end in the next sweep.
    const endpoint = await world.endpoint(await world.application(), { paused: true })
    await world.publish([endpoint])
    const row = await world.head(endpoint)
    await world.store.endResting([{ endpoint: endpoint.key, app: endpoint.app, row, reason: 'expired' }])
    await world.publish([endpoint], { special: [{ endpoint: endpoint.key, drop: 'overflow' }] })
    const waiting = await world.store.listUnfiled(10)
    assert.deepEqual(
      waiting.map(({ reason, code }) => [reason, code]),
      [
        ['expired', 'untried'],
        ['overflow', 'untried'],
      ],
    )
  })

  test('a settle that is repeated or fenced keeps nothing twice', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await worldWithLane(world)
    await world.store.beginDeadFiling()
    await world.publish([endpoint])
    const settlement = world.settlement(endpoint, await world.head(endpoint), dead)
    assert.equal(await world.settle(worker + 1, settlement), 'fenced')
    assert.deepEqual(await world.store.listUnfiled(10), [])
    await world.settle(worker, settlement)
    await world.settle(worker, settlement)
    assert.equal((await world.store.listUnfiled(10)).length, 1)
  })

  test('a position moves together with its letters, or not at all', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await worldWithLane(world)
    const { store } = world
    await store.beginDeadFiling()
    await die(world, worker, endpoint)
    await die(world, worker, endpoint)
    const keys = (await store.listUnfiled(10)).map(({ key }) => key)
    assert.equal(await store.findDeadFile('a'), undefined)
    assert.equal(await store.findDeadFile(''), undefined)
    await store.addDeadFile('a', 1)
    assert.deepEqual(await store.findDeadFile('a'), start)
    const reserved = { ...start, reserved: 70 }
    assert.equal(await store.moveDeadFile('a', start, reserved, []), true)
    // A process that read the position before changes nothing.
    assert.equal(await store.moveDeadFile('a', start, { part: 1, bytes: 50, reserved: 50 }, keys), false)
    assert.equal((await store.listUnfiled(10)).length, 2)
    const moved = { part: 1, bytes: 70, reserved: 70 }
    assert.equal(await store.moveDeadFile('a', reserved, moved, keys.slice(0, 1)), true)
    assert.deepEqual(await store.findDeadFile('a'), moved)
    // One of these letters is in the file already: nothing of it happens.
    const beyond = { part: 1, bytes: 90, reserved: 90 }
    assert.equal(await store.moveDeadFile('a', moved, beyond, keys), false)
    assert.deepEqual(await store.findDeadFile('a'), moved)
    assert.deepEqual(
      (await store.listUnfiled(10)).map(({ key }) => key),
      keys.slice(1),
    )
    assert.deepEqual(
      (await store.loadUnfiled(keys)).map(({ key }) => key),
      keys.slice(1),
    )
  })

  test('of two processes that file the same letter into two files, one does', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await worldWithLane(world)
    const { store } = world
    await store.beginDeadFiling()
    await store.addDeadFile('a', 1)
    await store.addDeadFile('b', 1)
    await die(world, worker, endpoint)
    const keys = (await store.listUnfiled(10)).map(({ key }) => key)
    const end = { part: 1, bytes: 9, reserved: 9 }
    const moved = await Promise.all(['a', 'b'].map((id) => store.moveDeadFile(id, start, end, keys)))
    assert.deepEqual(moved.toSorted(), [false, true])
    const positions = await Promise.all(['a', 'b'].map((id) => store.findDeadFile(id)))
    assert.deepEqual(positions.map((position) => position?.bytes).toSorted(), [0, 9])
    // Its key is not used again.
    await die(world, worker, endpoint)
    assert.notEqual((await store.listUnfiled(1))[0]?.key, keys[0])
  })

  test('an erased message leaves nothing of the receiver in a letter that waits for the file', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await worldWithLane(world)
    await world.store.beginDeadFiling()
    const message = await die(world, worker, endpoint)
    await world.store.expungeMessages([message])
    const [head] = await world.store.listUnfiled(1)
    const [letter] = await world.store.loadUnfiled([head?.key ?? 0])
    assert.equal(letter?.error, null)
    assert.doesNotMatch(Buffer.from(letter?.response ?? []).toString('latin1'), /\xff/)
  })

  test('a letter that was erased after its line was written is written again', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await worldWithLane(world)
    const { store } = world
    await store.beginDeadFiling()
    await store.addDeadFile('a', 1)
    const end = { part: 1, bytes: 9, reserved: 9 }
    const message = await die(world, worker, endpoint)
    const other = await die(world, worker, endpoint)
    const [attempt] = await store.attemptBriefsOf(message)
    assert(attempt)
    const unfiledOf = async (wanted: number) => {
      const waiting = await store.listUnfiled(10)
      const keys = waiting.filter((letter) => letter.message === wanted).map(({ key }) => key)
      assert.equal(keys.length, 1)
      return keys
    }
    for (const erase of [() => store.expungeAttempt(attempt), () => store.expungeMessages([message])]) {
      const [before, others] = [await unfiledOf(message), await unfiledOf(other)]
      await erase()
      assert.equal(await store.moveDeadFile('a', start, end, before), false, 'the file holds the old line')
      assert.deepEqual(await unfiledOf(other), others)
      const [letter] = await store.loadUnfiled(await unfiledOf(message))
      assert.equal(letter?.attempts, 1)
      assert.doesNotMatch(Buffer.from(letter?.response ?? []).toString('latin1'), /\xff/)
    }
    assert.equal(await store.moveDeadFile('a', start, end, await unfiledOf(message)), true)
  })

  test('letters that wait for a file that never comes are forgotten after a time, or at once when filing ends', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await worldWithLane(world)
    await world.store.beginDeadFiling()
    await die(world, worker, endpoint)
    await die(world, worker, endpoint)
    assert.equal(await world.store.forgetUnfiled(60_000, 10), 0)
    await world.pass(5)
    assert.equal(await world.store.forgetUnfiled(1, 1), 1)
    assert.equal(await world.store.endDeadFiling(), 1)
    assert.equal(await world.store.endDeadFiling(), 0)
    await die(world, worker, endpoint)
    assert.deepEqual(await world.store.listUnfiled(10), [])
    assert.equal(await world.store.beginDeadFiling(), true)
  })
}

/** A worker that owns the lane of an endpoint, with nothing in it. */
async function worldWithLane(world: World): Promise<{ endpoint: Endpoint; worker: number }> {
  const endpoint = await world.endpoint(await world.application())
  const { worker, row } = await world.owningOne(endpoint)
  await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' }))
  return { endpoint, worker }
}

/** Publishes a message whose delivery dies; answers its key. */
async function die(world: World, worker: number, endpoint: Endpoint): Promise<number> {
  const { key } = await world.publish([endpoint])
  await world.settle(worker, world.settlement(endpoint, await world.head(endpoint), dead))
  return key
}
