import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { keyTime } from '../../../src/domain/ids.ts'
import { LaneWakes } from '../../../src/store/postgres/lane-wakes.ts'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import { made, openSessions, type Run, type Sessions } from '../../../src/store/postgres/sessions.ts'
import { Signals } from '../../../src/store/postgres/signals.ts'
import type { RowName, Watcher } from '../../../src/store/store.ts'
import { eventually } from '../../e2e/eventually.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { World } from '../conformance/harness.ts'
import { context, newDatabase, openNewPostgresHarness, serversAt } from '../postgres-harness.ts'

/** Wake-ups of lanes on a clock of their own, on a real database; `flushed` are the lanes of each statement so far. */
async function open(t: TestContext) {
  const clock = new VirtualClock()
  const url = await newDatabase()
  const sessions = openSessions({ servers: serversAt(url), durable: false, connections: 1, onTrouble: () => {} })
  t.after(() => sessions.end())
  const flushed: string[] = []
  const begun: Promise<unknown>[] = []
  const seen: Sessions = {
    transaction: sessions.transaction,
    end: sessions.end,
    run: <Row>(...[statement, values]: Parameters<Run>) => {
      flushed.push(String(made(values)[0]))
      const rows = sessions.run<Row>(statement, values)
      begun.push(rows)
      return rows
    },
  }
  const wakes = new LaneWakes(seen, { ...context, clock }, new Signals('a', clock))
  /** Passes time, and waits for the statements that were run meanwhile. */
  const pass = async (ms: number) => {
    await clock.advance(ms)
    await Promise.all(begun)
    await clock.settle()
  }
  return { wakes, flushed, pass }
}

test('a lane that was woken a moment ago waits for others, and one that was not does not', async (t) => {
  const { wakes, flushed, pass } = await open(t)
  wakes.request([1], 0, true)
  await pass(0)
  assert.deepEqual(flushed, ['{1}'])
  wakes.request([1], 0, true)
  await pass(15)
  wakes.request([1], 0, true)
  assert.equal(flushed.length, 1)
  await pass(5)
  assert.deepEqual(flushed, ['{1}', '{1}'], 'two publishes share a wake-up after 20 ms')
  wakes.request([1], 0, true)
  await pass(1)
  wakes.request([2], 0, true)
  await pass(1)
  assert.deepEqual(flushed.slice(2), ['{1,2}'], 'the other lane may have no owner, and takes this one along')
  await pass(500)
  wakes.request([1], 0, true)
  await pass(0)
  assert.deepEqual(flushed.slice(3), ['{1}'], 'the first publish after a pause waits for nothing')
  await pass(2000)
  wakes.request([2], 0, true)
  await pass(0)
  wakes.request([1], 0, true)
  await pass(2)
  assert.deepEqual(flushed.slice(4), ['{2}', '{1}'], 'an idle owner has let go by then')
})

/** A watcher that keeps what it is told of another process's rows. */
function listening() {
  const named: RowName[] = []
  const read: number[][] = []
  const watcher: Watcher = {
    rows: (endpoints = []) => void read.push([...endpoints]),
    named: (names) => void named.push(...names),
    lanes() {},
    settings() {},
  }
  return { named, read, watcher }
}

test('another process is told the names of plain rows, and of other rows only the endpoints', async (t) => {
  const harness = await openNewPostgresHarness()
  t.after(() => harness.close())
  const other = await openPostgresStore(context, { url: harness.url })
  t.after(() => other.close())
  const world = new World(harness)
  const app = await world.application()
  const [one, two, three] = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
  const worker = await other.join({ leaseMs: 60_000, description: 'the owner' })
  for (let owned = 0; owned < 3; ) {
    await world.publish([one, two, three])
    owned += (await other.claim(worker, 3)).lanes.length
  }
  const { named, read, watcher } = listening()
  other.watch(watcher)
  const plain = await world.publication([one, two])
  const special = [{ endpoint: three.key, orderKey: 0 }]
  const ordered = await world.publication([two, three], { special })
  const published = await world.store.publish([plain, ordered])
  const [first, second] = published.map((each) => (each.state === 'accepted' ? each.key : 0)) as [number, number]
  await eventually('both endpoints of the ordered message are to be read', () => read.flat().includes(three.key))
  await eventually('the plain rows are named', () => named.some(({ message }) => message === first))
  const rows = (await world.rows(one)).filter(({ message }) => message === first)
  assert.deepEqual(
    named
      .filter(({ endpoint, message }) => endpoint === one.key && message === first)
      .map(({ message, dueAt }) => [message, dueAt]),
    rows.map(({ message, dueAt }) => [message, dueAt]),
  )
  assert.ok(!named.some(({ message }) => message === second))
  assert.ok(read.flat().includes(two.key), 'one of its rows has no name, so its queue is read')
})

test('names that do not fit into a notification are left out', () => {
  const signals = new Signals('a', new VirtualClock())
  const at = 2 ** 52
  const endpoints = Array.from({ length: 400 }, (_, i) => at + i)
  const names = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ endpoint: at, message: at + i, dueAt: keyTime(at + i) }))
  const whole = signals.payload(endpoints, names(100))
  assert.ok(whole.length < 8000 && whole.split(' ').length === 3)
  const list = signals.payload(endpoints, names(400))
  assert.equal(list, signals.payload(endpoints))
  assert.equal(
    signals.payload(
      Array.from({ length: 1000 }, (_, i) => at + i),
      names(1),
    ),
    'a',
  )
})
