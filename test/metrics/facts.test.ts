import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { Facts } from '../../src/metrics/facts.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import { Worst } from '../../src/metrics/rounds.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { type Store, StoreTrouble } from '../../src/store/store.ts'
import { begin, noEffects, type Open } from '../store/conformance/harness.ts'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'

/** Facts about a store that are counted by the real clock. */
function factsOf(t: TestContext, store: Store) {
  const onTrouble = (error: unknown) => assert.fail(error as Error)
  const ledger = new Ledger({ store, clock: systemClock, onTrouble })
  const facts = new Facts({ store, clock: systemClock, ledger, onTrouble })
  t.after(() => facts.stop())
  return facts
}

/** The facts once everything was counted. */
async function counted(facts: Facts) {
  const worst = () => facts.worst(2)
  facts.start()
  for (;;) {
    const { waiting, lanes, ...read } = await facts.current()
    if (waiting !== undefined && lanes !== undefined) return { waiting, lanes, worst: await worst(), ...read }
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

function figures(open: Open): void {
  test('an empty store has no figures but its condition', async (t) => {
    const { store } = await begin(t, open)
    const { waiting, lanes, worst, condition, ...facts } = await counted(factsOf(t, store))
    assert.deepEqual([waiting.byClass, waiting.behind, waiting.oldestDueMs, worst], [[0, 0, 0], 0, 0, []])
    assert.deepEqual(lanes.circuits, { closed: 0, open: 0, half_open: 0 })
    assert.ok(facts.storeUp && condition && condition.commitMs >= 0)
    assert.deepEqual([facts.workers, facts.leader, facts.scheduleLagMs], [[], undefined, 0])
  })

  test('waiting deliveries, lanes, circuits and workers are counted over the whole store', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const busy = await world.endpoint(app)
    const { worker } = await world.owningOne(busy)
    const health = [{ endpoint: busy.key, health: '{"circuit":"open","openMs":60000}' }]
    await store.settle(worker, [], { ...noEffects, health })
    const [late, paused, later] = [
      await world.endpoint(app),
      await world.endpoint(app, { paused: true }),
      await world.endpoint(app),
    ]
    for (let i = 0; i < 3; i++) await world.publish([late, paused])
    await world.publish([later], { delayMs: 60_000 })
    // Postgres wakes lanes a moment after the publish.
    await store.reconcile()
    await world.harness.sql(`update pending set due_at = due_at - 90000 where endpoint in (${late.key}, ${paused.key})`)
    await world.harness.sql(`update lane set due_at = due_at - 90000 where endpoint = ${late.key}`)
    const { waiting, lanes, workers, worst } = await counted(factsOf(t, store))
    assert.deepEqual(waiting.byClass, [7, 1, 0])
    assert.equal(waiting.behind, 3, 'a paused endpoint is not behind')
    assert.deepEqual(waiting.late, { ours: 3, receiver: 0, limit: 0 })
    assert.ok(waiting.oldestDueMs >= 90_000)
    assert.equal(waiting.endpoints, 4)
    assert.deepEqual(
      worst.map((each) => [each.endpoint, each.waiting]),
      [
        [late.key, 3],
        [paused.key, 3],
      ],
    )
    assert.deepEqual(lanes.states, { stopped: 1, owned: 1, ready: 1, sleeping: 1 })
    assert.deepEqual(lanes.circuits, { closed: 3, open: 1, half_open: 0 })
    assert.deepEqual(
      workers.map((each) => [each.worker, each.lanes]),
      [[worker, 1]],
    )
  })
}

describe('sqlite', () => figures(openSqliteHarness))
describe('postgres', () => figures(openPostgresHarness))

describe('a store in trouble', () => {
  /** Facts over a store whose answers the test decides, in virtual time. */
  function over(condition: () => Promise<unknown>) {
    const clock = new VirtualClock()
    let asked = 0
    const store = {
      condition: () => {
        asked++
        return condition()
      },
      listWorkers: async () => [],
      leader: async () => undefined,
      lateSchedules: async () => ({ now: 5000, schedules: [{ nextAt: 2000 }] }),
    } as unknown as Store
    const ledger = new Ledger({ store, clock })
    const facts = new Facts({ store, clock, ledger, onTrouble: (error) => assert.fail(error as Error) })
    return { clock, facts, asked: () => asked }
  }

  test('callers share one reading, and it is kept for five seconds', async () => {
    const { clock, facts, asked } = over(async () => ({ commitMs: 1 }))
    const all = await Promise.all(Array.from({ length: 100 }, () => facts.current()))
    assert.ok(all.every(({ storeUp, scheduleLagMs }) => storeUp && scheduleLagMs === 3000))
    await clock.advance(4999)
    await facts.current()
    assert.equal(asked(), 1)
    await clock.advance(1)
    await facts.current()
    assert.equal(asked(), 2)
  })

  test('the facts of before are answered while the store is down, and say so', async () => {
    let down = false
    const { clock, facts } = over(async () => {
      if (down) throw new StoreTrouble('gone')
      return { commitMs: 1 }
    })
    await facts.current()
    down = true
    await clock.advance(5000)
    const { storeUp, condition, scheduleLagMs } = await facts.current()
    assert.deepEqual([storeUp, condition?.commitMs, scheduleLagMs], [false, 1, 3000])
  })

  test('a caller does not wait for a store that hangs', async () => {
    const { clock, facts, asked } = over(() => new Promise(() => {}))
    const current = facts.current()
    await clock.advance(2000)
    assert.equal((await current).storeUp, false)
    await clock.advance(60_000)
    const again = facts.current()
    await clock.advance(2000)
    assert.equal((await again).storeUp, false)
    assert.equal(asked(), 1, 'a question that hangs is not asked again')
  })
})

test('the worst of any number are kept, the highest first', () => {
  const worst = new Worst<number>(3, (item) => item)
  for (const item of [1, 5, 2, 5, 4, 0, 9]) worst.offer(item)
  assert.deepEqual(worst.list, [9, 5, 5])
  const none = new Worst<number>(0, (item) => item)
  none.offer(1)
  assert.deepEqual(none.list, [])
})

describe('the count of the queues', () => {
  /** Counts three pages of a store that takes this long for each; answers when each page was asked for. */
  async function pagesOf(pageMs: number): Promise<number[]> {
    const clock = new VirtualClock()
    const asked: number[] = []
    const store: Pick<Store, 'surveyWaiting' | 'queueRungs' | 'countRange'> = {
      queueRungs: async () => [],
      countRange: async () => 0,
      async surveyWaiting() {
        const at = asked.push(clock.steady())
        await new Promise<void>((resolve) => clock.after(pageMs, resolve))
        const next = at % 3 === 0 ? null : { endpoint: at, class: 0 as const, dueAt: 0, message: 0 }
        return { counts: [], next }
      },
    }
    const ledger = new Ledger({ store, clock })
    ledger.start()
    while (asked.length < 4) await clock.advance(1)
    ledger.stop()
    return asked.map((at) => at - (asked[0] as number))
  }

  test('of a quick store pauses for 5 ms after each page, and begins again after 5 s', async () => {
    assert.deepEqual(await pagesOf(0), [0, 5, 10, 5010])
  })

  test('of a slow store takes a twelfth of its time while it counts, and a fiftieth in the long run', async () => {
    const [, second, third, again] = await pagesOf(100)
    assert.deepEqual([second, third], [1200, 2400])
    assert.equal(again, 2500 + 50 * 200)
  })
})
