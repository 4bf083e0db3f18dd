import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeadReason } from '../../../src/domain/judge.ts'
import type { LetterForFile } from '../../../src/features/dead-letters/store.ts'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import { begin, type Open, type World } from './harness.ts'

const dead = { state: 'dead', reason: 'exhausted' } as const

export function deadFiling(open: Open): void {
  test('a dead-letter file begins with the next letter, and has a position that moves behind what it holds', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const { endpoint, worker } = await worldWithLane(world)
    await die(world, worker, endpoint)
    await age(world, 10 * minute)
    assert.deepEqual(await store.listLettersForFile(null, 10), [], 'no file')
    assert.deepEqual([await store.beginDeadFile(null), await store.beginDeadFile(null)], [true, false])
    await begun(world, 5 * minute)
    const messages = [await die(world, worker, endpoint), await die(world, worker, endpoint)]
    await age(world, minute)
    const listed = await store.listLettersForFile(null, 10)
    assert.deepEqual(messagesOf(listed), messages)
    const { diedAt, ...rest } = listed[0] as LetterForFile
    assert.deepEqual(rest, { endpoint: endpoint.key, message: messages[0], bytes: 3, region: 'default' })
    assert.equal((await store.findDead(endpoint.key, messages[0] as number))?.diedAt, diedAt)
    assert.deepEqual(messagesOf(await store.listLettersForFile(null, 1)), messages.slice(0, 1))

    assert.equal(await store.takeDeadFile(null, 'a', 60_000), true)
    await store.moveDeadFile(null, 'a', listed[0] as LetterForFile)
    assert.deepEqual(messagesOf(await store.listLettersForFile(null, 10)), messages.slice(1))
    await store.moveDeadFile(null, 'a', listed[1] as LetterForFile)
    assert.deepEqual(await store.listLettersForFile(null, 10), [])
  })

  test('one process at a time has a dead-letter file, until it moves the position or its time is over', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    await store.beginDeadFile(null)
    await store.beginDeadFile('eu')
    const position = { diedAt: Date.now() + 1000, endpoint: 0, message: 0 }
    const take = (writer: string) => store.takeDeadFile(null, writer, 60_000)
    assert.deepEqual([await take('a'), await take('b'), await take('a')], [true, false, true])
    assert.equal(await store.takeDeadFile('eu', 'b', 60_000), true, 'each region has a file of its own')
    await store.moveDeadFile(null, 'b', position)
    assert.equal(await take('b'), false, 'it moved nothing')
    await store.moveDeadFile(null, 'a', position)
    assert.deepEqual([await take('b'), await take('a')], [true, false])
    await world.harness.sql('update dead_file set taken_until = 1')
    assert.equal(await take('a'), true)
  })

  test('letters of any end are listed for the file with their regions: of attempts, resting lanes and publishes', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    await store.beginDeadFile('eu')
    await begun(world, 5 * minute)
    // Paused, so that no wake-up of the lane has it locked, for then its deliveries end in the next sweep.
    const endpoint = await world.endpoint(await world.application(), { paused: true })
    await world.publish([endpoint])
    const row = await world.head(endpoint)
    await store.endResting([{ endpoint: endpoint.key, app: endpoint.app, row, reason: 'expired' }])
    await world.publish([endpoint], { special: [{ endpoint: endpoint.key, drop: 'overflow' }] })
    const { endpoint: other, worker } = await worldWithLane(world)
    await die(world, worker, other)
    await world.harness.sql(`update lane set region = 'eu' where endpoint = ${other.key}`)
    await age(world, minute)
    const listed = await store.listLettersForFile('eu', 10)
    const reasons: DeadReason[] = []
    for (const letter of await store.loadDead(listed)) if (letter !== undefined) reasons.push(letter.reason)
    assert.deepEqual(reasons, ['expired', 'overflow', 'exhausted'])
    assert.deepEqual(
      listed.map(({ region }) => region),
      ['default', 'default', 'eu'],
    )
  })
}

const minute = 60_000

/** Has everything died so long ago that no transaction of that time is open. */
async function age(world: World, ms: number): Promise<void> {
  await world.harness.sql(`update dead set died_at = died_at - ${ms}`)
}

/** Has the files begun so long ago. */
async function begun(world: World, ms: number): Promise<void> {
  await world.harness.sql(`update dead_file set began_at = began_at - ${ms}, died_at = died_at - ${ms}`)
}

function messagesOf(letters: readonly LetterForFile[]): number[] {
  return letters.map(({ message }) => message)
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
