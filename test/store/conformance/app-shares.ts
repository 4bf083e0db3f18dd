import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anyNumber, type OfBoth, type ShareAsk } from '../../../src/store/app-shares.ts'
import { begin, longMs, type Open, type World } from './harness.ts'

const all: OfBoth<number> = { rate: anyNumber, slots: anyNumber }
const none: OfBoth<number> = { rate: 0, slots: 0 }

/** What the store answers to a worker that asks for its shares of one application. */
async function ask(
  { store }: World,
  worker: number,
  app: number,
  wants: OfBoth<number>,
  uses: OfBoth<number> = none,
  leaves?: Pick<ShareAsk, 'leaves'>,
) {
  const answers = await store.shareLimits(worker, [{ app, wants, uses, ...leaves }])
  assert.equal(answers?.length, 1)
  const [{ shares, isShared } = assert.fail()] = answers ?? []
  return { rate: shares.rate, slots: shares.slots, isShared }
}

async function limited(world: World): Promise<number> {
  const { key } = await world.store.createApplication({
    ...{ name: 'Acme', uid: null, throttleRate: 100, metadata: {} },
    settings: { maxInFlight: 10 },
  })
  return key
}

export function appShares(open: Open): void {
  test('a worker that asks alone holds all that an application may use', async (t) => {
    const world = await begin(t, open)
    const app = await limited(world)
    const [worker, idle] = [await world.join(), await world.join()]
    const whole = { rate: { held: 100_000, target: 100_000 }, slots: { held: 10, target: 10 }, isShared: false }
    assert.deepEqual(await ask(world, worker, app, all), whole)
    assert.deepEqual(await world.store.shareLimits(idle, []), [])
  })

  test('an application without limits has none to share', async (t) => {
    const world = await begin(t, open)
    const { key } = await world.application()
    assert.deepEqual(await ask(world, await world.join(), key, all), { rate: null, slots: null, isShared: false })
  })

  test('a second worker gets what the first one has given up, and not before', async (t) => {
    const world = await begin(t, open)
    const app = await limited(world)
    const [first, second] = [await world.join(), await world.join()]
    await ask(world, first, app, all)
    const before = await ask(world, second, app, all)
    assert.deepEqual(
      [before.rate, before.slots],
      [
        { held: 0, target: 50_000 },
        { held: 0, target: 5 },
      ],
    )
    const used = { rate: 100_000, slots: 10 }
    const told = await ask(world, first, app, all, used)
    assert.deepEqual(
      [told.rate, told.slots],
      [
        { held: 100_000, target: 50_000 },
        { held: 10, target: 5 },
      ],
    )
    assert.deepEqual((await ask(world, second, app, all)).rate?.held, 0)
    await ask(world, first, app, all, { rate: 50_000, slots: 7 })
    const after = await ask(world, second, app, all)
    assert.deepEqual([after.rate?.held, after.slots?.held], [50_000, 3])
  })

  test('a busy worker gets the shares of those that want nothing', async (t) => {
    const world = await begin(t, open)
    const app = await limited(world)
    const workers = [await world.join(), await world.join(), await world.join()]
    const [busy = 0, ...idle] = workers
    for (const worker of idle) await ask(world, worker, app, none)
    await ask(world, busy, app, all)
    for (const worker of idle) await ask(world, worker, app, none)
    const { rate, slots } = await ask(world, busy, app, all)
    assert.deepEqual(
      [rate, slots],
      [
        { held: 100_000, target: 100_000 },
        { held: 10, target: 10 },
      ],
    )
  })

  test('what a worker held is free when it leaves the application, leaves, or is declared dead', async (t) => {
    const world = await begin(t, open)
    const app = await limited(world)
    const [first, second, third] = [await world.join(), await world.join(), await world.join(500)]
    await ask(world, first, app, all)
    await ask(world, first, app, none, none, { leaves: true })
    assert.equal((await ask(world, second, app, all)).rate?.held, 100_000)
    await world.store.leave(second)
    assert.equal((await ask(world, third, app, all)).rate?.held, 100_000)
    assert.equal((await ask(world, first, app, all)).rate?.held, 0)
    await world.pass(600)
    await world.store.renew(first, longMs)
    assert.equal((await ask(world, first, app, all)).rate?.held, 100_000)
    assert.equal(await world.store.shareLimits(third, [{ app, wants: all, uses: none }]), undefined)
  })

  test('a limit that is lowered is obeyed by what is given away from then on', async (t) => {
    const world = await begin(t, open)
    const app = await limited(world)
    const [first, second] = [await world.join(), await world.join()]
    await ask(world, first, app, all)
    await world.store.updateApplication(app, { throttleRate: 10, settings: { maxInFlight: 2 } })
    const told = await ask(world, first, app, none, { rate: 100_000, slots: 10 })
    assert.deepEqual([told.rate?.target, told.slots?.target], [10_000, 2])
    assert.equal((await ask(world, second, app, all)).rate?.held, 0)
  })

  test('workers that ask at once are given no more than there is', async (t) => {
    const world = await begin(t, open)
    const app = await limited(world)
    const workers = await Promise.all(Array.from({ length: 6 }, () => world.join()))
    const asks = workers.map((worker) => world.store.shareLimits(worker, [{ app, wants: all, uses: none }]))
    const answers = (await Promise.all(asks)).flatMap((answer) => answer ?? [])
    const sum = (of: keyof OfBoth<unknown>) => answers.reduce((sum, { shares }) => sum + (shares[of]?.held ?? 0), 0)
    assert.deepEqual([sum('rate'), sum('slots')], [100_000, 10])
  })
}
