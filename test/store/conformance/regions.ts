import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Application } from '../../../src/features/applications/noun.ts'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import type { TaskWork } from '../../../src/features/tasks/rules.ts'
import type { LaneRest } from '../../../src/store/store.ts'
import { begin, longMs, type Open, type World } from './harness.ts'

const secret = 'a secret that only we know'
const shape = { keep: null, drop: [], rename: {}, pseudonymize: ['/id'] }
const page = { limit: 10, order: 'ascending', after: null } as const

async function treatmentsOf(world: World, app: Application) {
  const list = (await world.store.subscriptions(app.key))?.list ?? []
  return list.toSorted((a, b) => a.endpoint - b.endpoint).map(({ treatment }) => treatment)
}

export function regions(open: Open): void {
  test('a region has a name within its application, and its secret does not come back with it', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const other = await world.application()
    const made = await world.store.createRegion(app.key, 'eu', secret)
    assert.deepEqual([made.name, Object.keys(made).sort()], ['eu', ['createdAt', 'name']])
    await world.store.createRegion(other.key, 'eu', secret)
    await world.store.createRegion(app.key, 'Us', secret)
    await world.store.createRegion(app.key, 'asia', secret)
    const names = async (request: Parameters<typeof world.store.listRegions>[1]) =>
      (await world.store.listRegions(app.key, request)).items.map((region) => region.name)
    assert.deepEqual(await names(page), ['Us', 'asia', 'eu'])
    assert.deepEqual(await names({ ...page, order: 'descending', after: 'eu' }), ['asia', 'Us'])
    assert.deepEqual(await names({ ...page, limit: 1, after: 'asia' }), ['eu'])
    assert.equal((await world.store.listRegions(app.key, { ...page, limit: 2 })).done, false)
    await assert.rejects(world.store.createRegion(app.key, 'eu', secret), { code: 'conflict' })
    await assert.rejects(world.store.createRegion(4711, 'eu', secret), { code: 'not_found' })
  })

  test('an endpoint with pseudonyms is only in a region that its application has a secret of, which then stays', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    await world.store.createRegion((await world.application()).key, 'eu', secret)
    await assert.rejects(world.endpoint(app, { flow: { region: 'eu', shape } }), { code: 'validation' })
    const endpoint = await world.endpoint(app, { flow: { region: 'eu' } })
    const enter = (region: string | null, its: typeof shape | null = shape) =>
      world.store.updateEndpoint(app.key, endpoint.key, { flow: { region, shape: region === null ? null : its } })
    await assert.rejects(enter('eu'), { code: 'validation' })
    await world.store.createRegion(app.key, 'eu', secret)
    assert.equal((await enter('eu'))?.flow.region, 'eu')
    await assert.rejects(world.store.deleteRegion(app.key, 'eu'), { code: 'conflict' })
    await enter('eu', null)
    assert.equal(await world.store.deleteRegion(app.key, 'eu'), true)
    assert.equal(await world.store.deleteRegion(app.key, 'eu'), false)
    assert.equal(await world.store.deleteRegion(4711, 'eu'), false)
    await enter(null)
  })

  test('a publisher learns the treatment of endpoints, where that is not the default', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    await world.store.createRegion(app.key, 'eu', secret)
    await world.endpoint(app, { secrets: [{ secret: 'whsec_AAAA', expiresAt: null }] })
    const shaped = await world.endpoint(app, { flow: { shape, region: 'eu' }, disabled: true })
    const signed = await world.endpoint(app, {
      flow: { signature: 'stored' },
      secrets: [
        { secret: 'whsec_BBBB', expiresAt: null },
        { secret: 'whsec_CCCC', expiresAt: 1 },
      ],
    })
    assert.deepEqual(await treatmentsOf(world, app), [
      undefined,
      { id: shaped.id, flow: shaped.flow, disabled: true, secret: null, regionSecret: secret },
      { id: signed.id, flow: signed.flow, disabled: false, secret: 'whsec_BBBB', regionSecret: null },
    ])
  })

  test('a publisher’s knowledge is outdated when a region is made or deleted', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const version = async () => (await world.store.subscriptions(app.key))?.version ?? 0
    const first = await version()
    await world.store.createRegion(app.key, 'eu', secret)
    const second = await version()
    await world.store.deleteRegion(app.key, 'eu')
    assert.ok(first < second && second < (await version()))
  })

  test('a sender learns the secret of the region and the application’s header names', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    await world.store.createRegion(app.key, 'eu', secret)
    const endpoint = await world.endpoint(app, { flow: { shape, region: 'eu' } })
    const plain = await world.endpoint(app)
    const told: unknown[] = []
    world.store.watch({ rows() {}, lanes() {}, settings: (endpoints) => void told.push(endpoints) })
    await world.store.updateApplication(app.key, { name: 'the same' })
    assert.deepEqual(told, [])
    const settings = { signatureHeaders: { signature: 'x-vvv-signature' } }
    await world.store.updateApplication(app.key, { settings })
    assert.deepEqual(told, [undefined], 'any endpoint may be meant')
    const loaded = await world.store.loadEndpoints([endpoint.key, plain.key])
    assert.deepEqual(
      loaded.map(({ regionSecret, appSettings }) => [regionSecret, appSettings]),
      [
        [secret, settings],
        [null, settings],
      ],
    )
    const worker = await world.join()
    await world.publish([endpoint])
    const [claimed] = await world.claim(worker)
    assert.equal(claimed?.endpoint.regionSecret, secret)
    assert.deepEqual(claimed?.endpoint.appSettings, settings)
    await world.store.updateApplication(app.key, { settings: { signatureHeaders: 'svix' } })
    const [again] = await world.store.loadEndpoints([plain.key])
    assert.equal(again?.appSettings?.signatureHeaders, 'svix')
    assert.equal('regionSecret' in ((await world.store.findEndpoint(app.key, endpoint.id)) ?? {}), false)
  })

  test('the secrets of a deleted application go at once', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    await world.store.createRegion(app.key, 'eu', secret)
    await world.store.deleteApplication(app.key)
    assert.deepEqual((await world.store.listRegions(app.key, page)).items, [])
  })

  test('a worker claims lanes of its regions, and waits for those alone', async (t) => {
    const world = await begin(t, open)
    const { eu, us, plain, back } = await fleet(world)
    const [european, other, any] = [await join(world, ['eu']), await join(world, ['us', 'default']), await world.join()]
    await world.publish([eu])
    await world.publish([us])
    await world.publish([plain, back], { app: plain.app })
    assert.deepEqual(await claimedBy(world, european, ['eu'], 1), [eu.key])
    assert.deepEqual((await world.store.claim(european, 10, false, ['eu'])).nextInMs, undefined)
    assert.deepEqual(await claimedBy(world, other, ['us', 'default'], 3), [us.key, plain.key, back.key])
    await world.store.release(other, [rest(us), rest(plain)])
    await world.publish([us])
    assert.deepEqual(await claimedBy(world, any, null, 2), [us.key, plain.key])
    assert.deepEqual((await world.store.claim(european, 10, true, ['eu'])).lanes.length, 1, 'those it owns')
  })

  test('a lane that moves stays with its owner until that gives it back, with its bucket', async (t) => {
    const world = await begin(t, open)
    const { us } = await fleet(world)
    const [american, european] = [await join(world, ['us']), await join(world, ['eu'])]
    await world.publish([us])
    await claimedBy(world, american, ['us'], 1)
    await world.store.updateEndpoint(us.app, us.key, { flow: { region: 'eu' } })
    assert.equal((await world.store.loadEndpoints([us.key]))[0]?.region, 'eu')
    assert.deepEqual((await world.store.claim(european, 10, false, ['eu'])).lanes, [])
    const limit = { perPeriod: 1, periodMs: 60_000, burst: 1 } as unknown as LaneRest['bucketLimit']
    await world.store.release(american, [{ ...rest(us), bucketDebtMs: 30_000, bucketLimit: limit }])
    await world.pass(30)
    assert.deepEqual((await world.store.claim(american, 10, false, ['us'])).lanes, [])
    const [claimed] = (await world.store.claim(european, 10, false, ['eu'])).lanes
    assert.deepEqual([claimed?.endpoint.key, claimed?.endpoint.region, claimed?.clean], [us.key, 'eu', true])
    assert.deepEqual(claimed?.bucketLimit, limit)
    assert.ok((claimed?.bucketDebtMs ?? 0) > 20_000, `${claimed?.bucketDebtMs}`)
  })

  test('lanes of a worker that died are claimed in their region alone', async (t) => {
    const world = await begin(t, open)
    const { eu } = await fleet(world)
    const dying = await world.store.join({ leaseMs: 20, description: 'dies', regions: ['eu'] })
    await world.publish([eu])
    await claimedBy(world, dying, ['eu'], 1)
    await world.pass(60)
    const [american, european] = [await join(world, ['us', 'default']), await join(world, ['eu'])]
    assert.deepEqual((await world.store.claim(american, 10, false, ['us', 'default'])).lanes, [])
    const [claimed] = (await world.store.claim(european, 10, false, ['eu'])).lanes
    assert.deepEqual([claimed?.endpoint.key, claimed?.clean], [eu.key, false])
  })

  test('lanes without their own region follow their application, a few at a time, and their owners hear of it', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const own = await world.endpoint(app, { flow: { region: 'asia' } })
    const others = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    const regionsOf = async () =>
      (await world.store.loadEndpoints([own, ...others].map(({ key }) => key))).map((e) => e.region)
    assert.deepEqual(await world.store.moveLanes(10), { more: false })
    await world.store.updateApplication(app.key, { settings: { region: 'eu' } })
    assert.deepEqual(await regionsOf(), ['asia', 'default', 'default', 'default'], 'before the first step')
    const told: (readonly number[] | undefined)[] = []
    world.store.watch({ rows() {}, lanes() {}, settings: (endpoints) => void told.push(endpoints) })
    assert.deepEqual(await world.store.moveLanes(2), { more: true })
    assert.deepEqual(await regionsOf(), ['asia', 'eu', 'default', 'default'])
    assert.deepEqual(told, [[others[0]?.key]])
    assert.equal((await world.endpoint(app)).flow.region, null)
    while ((await world.store.moveLanes(2)).more);
    assert.deepEqual(await regionsOf(), ['asia', 'eu', 'eu', 'eu'])
    await world.store.updateEndpoint(app.key, own.key, { flow: { region: null } })
    assert.deepEqual((await regionsOf())[0], 'eu')
    await world.store.updateApplication(app.key, { settings: { region: null } })
    await world.store.deleteApplication(app.key)
    while ((await world.store.moveLanes(2)).more);
  })

  test('lanes are shared among the workers of their region', async (t) => {
    const world = await begin(t, open)
    const { eu, us, plain } = await fleet(world)
    const alone = await world.join()
    assert.equal((await world.store.renew(alone, longMs)).regions, undefined, 'no worker has regions')
    const european = await join(world, ['eu'])
    await world.publish([eu])
    await world.publish([us])
    await world.publish([plain])
    await claimedBy(world, european, ['eu'], 1)
    await world.pass(30)
    const shares = async (worker: number) => Object.fromEntries((await world.store.renew(worker, longMs)).regions ?? [])
    const idle = { workers: 1, activeLanes: 1, fewestLanes: 0 }
    assert.deepEqual(await shares(european), { eu: { workers: 2, activeLanes: 1, fewestLanes: 0 } })
    assert.deepEqual(await shares(alone), {
      eu: { workers: 2, activeLanes: 1, fewestLanes: 0 },
      us: idle,
      default: idle,
    })
    const listed = (await world.store.listWorkers(10)).map(({ regions }) => regions)
    assert.deepEqual(listed, [['eu'], null])
  })

  test('a lane shows its region and the workers that serve it', async (t) => {
    const world = await begin(t, open)
    const { eu, us, plain } = await fleet(world)
    await join(world, ['us', 'default'])
    const shown = async () => {
      const { region, workersAlive, workersServing } = (await world.store.findLane(eu.key)) ?? assert.fail()
      const [state] = await world.store.laneStates([eu.key])
      assert.deepEqual([state?.region, state?.workersServing], [region, workersServing])
      return [region, workersAlive, workersServing]
    }
    assert.deepEqual(await shown(), ['eu', 1, 0])
    await join(world, ['asia', 'eu'])
    await world.join()
    assert.deepEqual(await shown(), ['eu', 3, 2])
    await world.publish([eu])
    await world.publish([us])
    await world.publish([plain])
    const { groups } = await world.store.surveyLanes(null, 100)
    assert.deepEqual([...new Set(groups.map(({ region }) => region))].sort(), ['default', 'eu', 'us'])
  })

  test('a task and a schedule are for workers of their region', async (t) => {
    const world = await begin(t, open)
    const { eu, us, plain } = await fleet(world)
    const span = { since: 0, until: 1 }
    const recover = (endpoint: Endpoint) =>
      world.store.createTask({
        app: endpoint.app,
        work: { type: 'endpoint.recover', input: { endpoint: endpoint.key, ...span } } as unknown as TaskWork,
        data: {},
      })
    const ofServer = await world.store.createTask({
      app: null,
      work: { type: 'event-type.aggregate', input: {} } as unknown as TaskWork,
      data: {},
    })
    const [ofEu, ofUs, ofDefault] = [await recover(eu), await recover(us), await recover(plain)]
    const takes = async (regions: string[] | null) => (await world.store.takeTask(longMs, regions))?.id
    assert.deepEqual([await takes(['asia']), await takes(['asia'])], [ofServer.id, undefined])
    assert.deepEqual([await takes(['eu']), await takes(['eu'])], [ofEu.id, undefined])
    assert.deepEqual([await takes(['default']), await takes(['default'])], [ofDefault.id, undefined])
    assert.deepEqual([await takes(null), await takes(null)], [ofUs.id, undefined])
    for (const app of [us.app, plain.app]) await world.store.createSchedule(app, everyMinute)
    await world.harness.sql('update schedule set due_at = 1')
    const due = async (regions: string[] | null) =>
      (await world.store.dueSchedules(10, regions)).schedules.map(({ app }) => app)
    assert.deepEqual([await due(['eu']), await due(['us']), await due(['default'])], [[], [us.app], [plain.app]])
    assert.deepEqual(await due(null), [us.app, plain.app])
    const { schedules: late } = await world.store.lateSchedules(10)
    assert.deepEqual([late.map(({ app }) => app), late.some((each) => 'body' in each)], [[us.app, plain.app], false])
  })
}

/** Endpoints in eu by themselves, in us by their application, in no region, and in none within an application in us. */
async function fleet(world: World) {
  const [app, american] = [await world.application(), await world.application()]
  await world.store.updateApplication(american.key, { settings: { region: 'us' } })
  while ((await world.store.moveLanes(10)).more);
  const eu = await world.endpoint(app, { flow: { region: 'eu' } })
  const us = await world.endpoint(american)
  const plain = await world.endpoint(app)
  const back = await world.endpoint(american, { flow: { region: 'default' } })
  return { eu, us, plain, back }
}

function join(world: World, regions: readonly string[]): Promise<number> {
  return world.store.join({ leaseMs: longMs, description: 'a worker of some regions', regions })
}

/** The endpoints of the lanes that the worker claims, as soon as there are so many. */
async function claimedBy(world: World, worker: number, regions: readonly string[] | null, expected: number) {
  const keys: number[] = []
  for (let tries = 0; keys.length < expected && tries < 400; tries++) {
    if (tries > 0) await world.pass(5)
    const { lanes } = await world.store.claim(worker, 10, false, regions)
    keys.push(...lanes.map(({ endpoint }) => endpoint.key))
  }
  await world.pass(30)
  keys.push(...(await world.store.claim(worker, 10, false, regions)).lanes.map(({ endpoint }) => endpoint.key))
  return keys.toSorted((a, b) => a - b)
}

function rest({ key }: Endpoint): LaneRest {
  return { endpoint: key, bucketDebtMs: 0, bucketLimit: null, notBeforeMs: 0 }
}

const everyMinute = {
  uid: null,
  cron: '* * * * *',
  timezone: 'UTC',
  eventType: 'tick',
  body: new TextEncoder().encode('{}'),
  contentType: 'application/json',
  headers: null,
  channels: null,
  tags: null,
  endpoint: null,
  missed: 'skip',
  missedLimit: 1,
  paused: false,
  metadata: {},
} as const
