import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { defaultRules } from '../../src/features/alerts/figures.ts'
import { AlertWatch } from '../../src/features/alerts/job.ts'
import type { AlertRule } from '../../src/features/alerts/rules.ts'
import type { StoreCondition } from '../../src/features/doctor/facts.ts'
import { managementApplication } from '../../src/features/endpoints/rules.ts'
import { bucketOf, minuteMs, Sketch, type StoredSums, serverScope } from '../../src/features/history/rules.ts'
import { sendNotices } from '../../src/features/notices/job.ts'
import { Preparer } from '../../src/intake/preparer.ts'
import { Facts, type StoreFigures } from '../../src/metrics/facts.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import type { RankedQueue } from '../../src/metrics/queue-book.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { begin, noEffects, type Open, plainEndpoint, type World } from '../store/conformance/harness.ts'
import { plainSchedule } from '../store/conformance/schedules.ts'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'

/** The default rules with their thresholds, and without their waits: a test cannot wait for minutes. */
const hasty = defaultRules.map((rule) => ({ ...rule, holdMs: 0, clearMs: 0 }))

/** Figures of the store at this moment, counted to the end. */
async function counted(
  t: TestContext,
  { store }: World,
): Promise<StoreFigures & { readonly worst: readonly RankedQueue[]; readonly delayAt: Facts['delayAt'] }> {
  const onTrouble = (error: unknown) => assert.fail(error as Error)
  const ledger = new Ledger({ store, clock: systemClock, onTrouble })
  const facts = new Facts({ store, clock: systemClock, ledger, onTrouble })
  t.after(() => facts.stop())
  facts.start()
  for (;;) {
    const figures = await facts.current()
    if (figures.waiting && figures.lanes) {
      facts.stop()
      return { ...figures, worst: await facts.worst(50), delayAt: (endpoint) => facts.delayAt(endpoint) }
    }
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** Steps the alerts by the figures of this moment, as a leader that has just begun to lead. */
async function step(
  t: TestContext,
  world: World,
  rules: readonly AlertRule[] = hasty,
  change: (figures: StoreFigures) => StoreFigures = (same) => same,
) {
  const { worst, delayAt, ...found } = await counted(t, world)
  const figures = change(found)
  const facts = { start: () => {}, current: async () => figures, worst: async () => worst, delayAt }
  return new AlertWatch({ store: world.store, clock: systemClock, facts, rules, version: 'test' }).step()
}

/** The alerts that fire, in words. */
async function firing({ store }: World): Promise<string[]> {
  const { alerts } = await store.readAlerts()
  return alerts.filter(({ state }) => state.phase === 'firing').map(({ rule }) => rule)
}

async function sentenceOf({ store }: World, rule: string): Promise<string> {
  return (await store.readAlerts()).alerts.find((alert) => alert.rule === rule)?.state.sentence ?? assert.fail(rule)
}

async function sums({ store }: World, stored: StoredSums, minutesAgo = 1): Promise<void> {
  const { now } = await store.readAlerts()
  const at = Math.floor(now / minuteMs) * minuteMs - minutesAgo * minuteMs
  await store.writeHistory(`w${minutesAgo}`, [{ scope: serverScope, span: minuteMs, at, sums: stored }])
}

function withCondition(change: Partial<StoreCondition>) {
  return (figures: StoreFigures): StoreFigures => ({
    ...figures,
    condition: { ...(figures.condition as StoreCondition), ...change },
  })
}

const quiet = { disk: null, logBytes: null }

function alerting(open: Open): void {
  test('nothing fires on a healthy system', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.owningOne(endpoint)
    await sums(world, { accepted: 1000, delivered: 1000, failed: 20, dead: 3 })
    assert.deepEqual(await step(t, world, hasty, withCondition(quiet)), [])
  })

  test('too many waiting deliveries fire for the server and for their endpoint', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    const [crowded, calm] = [await world.endpoint(app, { uid: 'main' }), await world.endpoint(app, { uid: 'calm' })]
    await world.store.publish(await Promise.all(Array.from({ length: 201 }, () => world.publication([crowded]))))
    await world.store.publish(await Promise.all(Array.from({ length: 200 }, () => world.publication([calm]))))
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), ['endpoint_waiting'])
    assert.equal(await sentenceOf(world, 'endpoint_waiting'), '201 deliveries wait for main of acme.')
    const { alerts } = await world.store.readAlerts()
    assert.deepEqual(
      alerts.map(({ subject, state }) => [subject, state.command]),
      [[crowded.id, 'sluice why acme --endpoint main']],
    )
    await step(
      t,
      world,
      hasty.map((rule) => (rule.name === 'waiting' ? { ...rule, threshold: 400 } : rule)),
      withCondition(quiet),
    )
    assert.deepEqual(await firing(world), ['endpoint_waiting', 'waiting'])
    assert.match(await sentenceOf(world, 'waiting'), /^401 deliveries wait, the first due for /)
  })

  test('deliveries that are behind fire, and resolve when they are gone', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint])
    await world.harness.sql('update pending set due_at = due_at - 90000')
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), ['behind'])
    await world.harness.sql('delete from pending')
    const [resolved] = await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual([resolved?.rule, resolved?.announce], ['behind', 'resolved'])
    assert.deepEqual(await firing(world), [])
  })

  test('a queue that its receiver delays fires nothing, however late and long it is', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    const dead = await world.endpoint(app, { uid: 'dead' })
    // One dead receiver among many: the circuits of the others are closed.
    for (let i = 0; i < 12; i++) await world.publish([await world.endpoint(app)])
    const { worker } = await world.owningOne(dead)
    await world.store.settle(worker, [], {
      ...noEffects,
      health: [{ endpoint: dead.key, health: '{"circuit":"open","openMs":60000}' }],
    })
    for (let i = 0; i < 400; i++) await world.publish([dead])
    await world.harness.sql(`update pending set due_at = due_at - 90000 where endpoint = ${dead.key}`)
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), [])
  })

  test('a circuit that keeps deliveries waiting fires; one that an operator opened does not', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    const [broken, opened] = [await world.endpoint(app, { uid: 'broken' }), await world.endpoint(app)]
    const worker = await world.join()
    await world.publish([broken, opened])
    await world.claim(worker, 2)
    const health = [
      { endpoint: broken.key, health: '{"circuit":"open","openMs":60000}' },
      { endpoint: opened.key, health: '{"circuit":"open","manual":true}' },
    ]
    await world.store.settle(worker, [], { ...noEffects, health })
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), ['circuit_open'])
    assert.match(await sentenceOf(world, 'circuit_open'), /^The circuit of broken of acme is open/)
  })

  test('endpoints that wait for a slot fire, and slots in use alone do not', async (t) => {
    const world = await begin(t, open)
    const worker = await world.join()
    const report = { version: '1', host: 'h', pid: 1, inFlightLimit: 100 }
    await world.store.renew(worker, 60_000, { ...report, inFlight: 100 })
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), [])
    const waits = { lanes: 3, longestMs: 4000, endpoints: [] }
    await world.store.renew(worker, 60_000, { ...report, inFlight: 60, waits })
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), ['saturation'])
    assert.equal(
      await sentenceOf(world, 'saturation'),
      '3 endpoints wait for a slot of a worker, the longest for 4 s. Workers use 60 of 100 slots (60 %).',
    )
  })

  test('slow first attempts and failures of the last five minutes fire', async (t) => {
    const world = await begin(t, open)
    const [wait, heldUp] = [new Sketch(), new Sketch()]
    wait.addAt(bucketOf(40_000), 100)
    await sums(world, { delivered: 100, wait: wait.toJSON() })
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), [], 'receivers and limits may delay all')
    heldUp.addAt(bucketOf(40_000), 6)
    await sums(world, { delivered: 100, failed: 2, wait: wait.toJSON(), heldUp: heldUp.toJSON() })
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), ['wait_p95'])
    const quick = new Sketch()
    quick.addAt(bucketOf(100), 100)
    await sums(world, { delivered: 100, failed: 4, wait: quick.toJSON() }, 2)
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), ['failures'], 'six of two hundred, and one wait in forty is long')
    assert.match(
      await sentenceOf(world, 'failures'),
      /^6 attempts failed and 200 deliveries succeeded in the last 5 min/,
    )
  })

  test('failures that are longer ago, or fewer than five, do not fire', async (t) => {
    const world = await begin(t, open)
    await sums(world, { failed: 100 }, 7)
    await sums(world, { failed: 4 }, 1)
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), [])
  })

  test('dead letters that double fire with the sentence of the doctor', async (t) => {
    const world = await begin(t, open)
    await sums(world, { delivered: 9000, dead: 6 }, 12)
    await sums(world, { delivered: 9000, dead: 8, expired: 3, dropped: 1 }, 2)
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), ['dead_letters_growing'])
    assert.equal(
      await sentenceOf(world, 'dead_letters_growing'),
      '12 deliveries became dead letters in the last 10 min, and 6 in the 10 min before.',
    )
  })

  test('each worker that dies fires on its own; a worker that leaves does not', async (t) => {
    const world = await begin(t, open)
    const [first, second, third] = [await world.join(1), await world.join(1), await world.join()]
    await world.store.leave(third)
    await world.pass(20)
    await world.store.renew(await world.join(), 60_000)
    await step(t, world, hasty, withCondition(quiet))
    const { alerts } = await world.store.readAlerts()
    assert.deepEqual(
      alerts.map(({ rule, subject }) => [rule, subject]),
      [
        ['worker_died', `worker ${first}`],
        ['worker_died', `worker ${second}`],
      ],
    )
    assert.deepEqual(await step(t, world, hasty, withCondition(quiet)), [], 'a death is announced once')
  })

  test('a late schedule fires with the sentence of the doctor', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    const { key } = await world.store.createSchedule(app.key, { ...plainSchedule, uid: 'daily' })
    const { now } = await world.store.readAlerts()
    await world.harness.sql(
      `update schedule set next_at = ${now - 300_000}, due_at = ${now - 300_000} where key = ${key}`,
    )
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual(await firing(world), ['schedule_late'])
    assert.match(await sentenceOf(world, 'schedule_late'), /^The schedule daily of acme is 5 min.* late\./)
  })

  test('a disk or a log that fills up fires, with hysteresis', async (t) => {
    const world = await begin(t, open)
    const gib = 2 ** 30
    const disk = (freeBytes: number) => ({
      disk: { path: '/data/sluice.db', freeBytes, totalBytes: 50 * gib, network: null },
      logBytes: gib / 4,
    })
    await step(t, world, hasty, withCondition(disk(gib - 1)))
    assert.deepEqual(await firing(world), ['disk_filling', 'wal_filling'])
    assert.equal(
      await sentenceOf(world, 'disk_filling'),
      'The file system of /data/sluice.db has 1024 MiB of 50 GiB left.',
    )
    await step(t, world, hasty, withCondition({ ...disk(gib * 1.1), logBytes: 0 }))
    assert.deepEqual(await firing(world), ['disk_filling'], 'a little more room is not enough')
    await step(t, world, hasty, withCondition({ ...disk(gib * 1.3), logBytes: 0 }))
    assert.deepEqual(await firing(world), [])
  })

  test('leaders that come and go, or lead at once, announce each transition once', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const preparer = new Preparer({ clock: systemClock })
    const listener = await store.createEndpoint(managementApplication, { ...plainEndpoint, eventTypes: ['alert.*'] })
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint])
    await world.harness.sql('update pending set due_at = due_at - 90000')
    await Promise.all(Array.from({ length: 4 }, () => step(t, world, hasty, withCondition(quiet))))
    // A leader that dies after it published the notice, and before it removed it.
    const dying = { ...store, removeNotices: () => Promise.reject(new Error('died')) }
    await assert.rejects(sendNotices(dying, preparer), /died/)
    await step(t, world, hasty, withCondition(quiet))
    await Promise.all([sendNotices(store, preparer), sendNotices(store, preparer)])
    await world.harness.sql(`delete from pending where endpoint = ${endpoint.key}`)
    await Promise.all(Array.from({ length: 4 }, () => step(t, world, hasty, withCondition(quiet))))
    await sendNotices(store, preparer)
    const rows = await world.rows(listener)
    const bodies = (await store.loadMessages(rows.map(({ message }) => message))).map(({ body }) =>
      JSON.parse(Buffer.from(body).toString()),
    )
    assert.deepEqual(
      bodies.map(({ type, data }) => [type, data.rule]),
      [
        ['alert.firing', 'behind'],
        ['alert.resolved', 'behind'],
      ],
    )
    assert.equal(bodies[0].data.alertId, bodies[1].data.alertId)
    assert.deepEqual([bodies[0].data.resolvedAt, typeof bodies[1].data.resolvedAt], [null, 'string'])
  })

  test('a leader that dies between its transition and the commit has announced nothing', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint])
    await world.harness.sql('update pending set due_at = due_at - 90000')
    const { worst, delayAt, ...found } = await counted(t, world)
    const figures = withCondition(quiet)(found)
    const facts = { start: () => {}, current: async () => figures, worst: async () => worst, delayAt }
    const store = { ...world.store, changeAlerts: () => Promise.reject(new Error('died')) }
    const parts = { clock: systemClock, facts, rules: hasty, version: 'test' }
    await assert.rejects(new AlertWatch({ ...parts, store }).step(), /died/)
    assert.deepEqual(await world.store.listNotices(10), [])
    await new AlertWatch({ ...parts, store: world.store }).step()
    assert.equal((await world.store.listNotices(10)).length, 1)
  })

  test('an alert within a silence is announced when the silence ends', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint])
    await world.harness.sql('update pending set due_at = due_at - 90000')
    const asked = { rule: 'behind', subject: null, startsInMs: 0, lengthMs: 600_000, reason: '', createdBy: '' }
    const { id } = await world.store.addSilence(asked)
    await step(t, world, hasty, withCondition(quiet))
    assert.deepEqual([await firing(world), await world.store.listNotices(10)], [['behind'], []])
    await world.store.endSilence(id)
    await step(t, world, hasty, withCondition(quiet))
    assert.equal((await world.store.listNotices(10)).length, 1)
  })
}

describe('sqlite', () => alerting(openSqliteHarness))
describe('postgres', () => alerting(openPostgresHarness))
