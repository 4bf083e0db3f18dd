import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Class, fresh, replay, timed } from '../../src/domain/delivery.ts'
import { type Entry, isBefore, OrderedQueue, type Ordering } from '../../src/domain/queue.ts'
import { Scheduler } from '../../src/domain/scheduler.ts'

function place(message: number, orderKey: number | null = null, itsClass: Class = fresh, dueAt = message) {
  return { class: itsClass, dueAt, message, orderKey }
}

test('first in, first out: one at a time, and a head that waits for its retry keeps the others back', () => {
  const line = new OrderedQueue<string>('fifo')
  line.add('b', place(2), 0, 0)
  line.add('a', place(1), 0, 0)
  const head = line.take(0)
  assert.equal(head?.item, 'a')
  assert.equal(line.take(0), undefined, 'the head is under way')
  line.putBack(head as Entry<string>, 500, 10)
  assert.equal(line.take(499), undefined)
  assert.equal(line.nextAt(10), 500)
  assert.equal(line.restsUntil(), 500)
  const again = line.take(500)
  assert.equal(again?.item, 'a')
  line.end(again as Entry<string>, 501)
  assert.equal(line.take(501)?.item, 'b')
})

test('a head that waits for an operator keeps its key back for ever, and no other key', () => {
  const line = new OrderedQueue<string>('key')
  const stuck = line.add('stuck', place(1, 7), Number.POSITIVE_INFINITY, 0)
  line.add('behind', place(2, 7), 0, 0)
  line.add('other', place(3, 8), 0, 0)
  line.add('free', place(4, null), 0, 0)
  assert.deepEqual([line.take(0)?.item, line.take(0)?.item, line.take(0)], ['other', 'free', undefined])
  assert.equal(line.nextAt(0), Number.POSITIVE_INFINITY)
  assert.equal(line.restsUntil(), Number.NEGATIVE_INFINITY, 'what comes may have another key')
  line.delay(stuck, 0, 10)
  assert.equal(line.take(10)?.item, 'stuck')
  line.end(stuck, 11)
  assert.equal(line.take(11)?.item, 'behind')
})

test('fresh and timed deliveries are in one queue by their instants, and replays behind them all', () => {
  const line = new OrderedQueue<number>('fifo')
  line.add(5, place(1, null, replay, 1), 0, 0)
  line.add(2, place(12, null, fresh, 12), 0, 0)
  line.add(1, place(3, null, timed, 11), 0, 0)
  line.add(4, place(13, null, fresh, 13), 0, 0)
  line.add(3, place(2, null, timed, 13), 0, 0)
  const seen: number[] = []
  for (let entry = line.take(0); entry; entry = line.take(0)) {
    seen.push(entry.item)
    line.end(entry, 0)
  }
  assert.deepEqual(seen, [1, 2, 3, 4, 5])
  assert.equal(line.size, 0)
})

test('a replay that waits for its retry blocks no delivery', () => {
  const line = new OrderedQueue<string>('fifo')
  const failed = line.add('failed', place(1, null, replay), 900, 0)
  line.add('replay', place(2, null, replay), 0, 0)
  assert.equal(line.take(0)?.item, 'replay')
  line.add('fresh', place(3), 0, 0)
  assert.equal(line.take(0), undefined, 'one at a time')
  assert.equal(line.restsUntil(), 0, 'a head that may go rests until no later than now')
  assert.equal(failed.state, 'waiting')
})

test('one delivery more of a key costs the same behind two thousand of another', () => {
  const line = new OrderedQueue<number>('key')
  for (let i = 0; i < 2000; i++) line.add(i, place(i, 1), i === 0 ? Number.POSITIVE_INFINITY : 0, 0)
  for (let i = 2000; i < 2010; i++) line.add(i, place(i, 2), 0, 0)
  assert.equal(line.startable, 1)
  assert.equal(line.take(0)?.item, 2000)
  assert.equal(line.startable, 0)
  assert.equal(line.known(fresh), 2010)
})

interface Model {
  readonly entry: Entry<number>
  readonly key: number | null
}

/** An ordered lane in a scheduler, beside everything that is in it said in the plainest way. */
class Bench {
  readonly #scheduler = new Scheduler<number>({ inFlight: 1000, inFlightPerApp: 1000 })
  readonly #lane
  readonly #ordering: Ordering
  #all: Model[] = []
  #now = 0
  #items = 0
  started = 0

  constructor(ordering: Ordering) {
    this.#ordering = ordering
    const limits = { rate: undefined, concurrency: ordering === 'fifo' ? 1 : 8 }
    this.#lane = this.#scheduler.add(1, 1, limits, { bucketDebtMs: 0, holdMs: 0 }, 0, ordering)
    assert.ok(this.#lane.order)
  }

  add(dueAt: number, key: number | null, itsClass: Class, retryInMs: number): void {
    const where = { class: itsClass, dueAt, message: ++this.#items, orderKey: key }
    const lane = this.#lane as Parameters<Scheduler<number>['offerOrdered']>[0]
    const entry = this.#scheduler.offerOrdered(lane, where, this.#items, this.#now + retryInMs, this.#now)
    this.#all.push({ entry, key: this.#ordering === 'fifo' ? 0 : key })
  }

  plan(max: number): void {
    const before = this.#all.filter(({ entry }) => entry.state === 'waiting')
    const starts = this.#scheduler.plan(this.#now, max)
    const taken = new Set(starts.map(({ item }) => item))
    for (const { item } of starts) this.#mayStart(this.#of(item), before, taken)
    this.started += starts.length
    const underWay = this.#all.filter(({ entry }) => entry.state === 'under way')
    assert.ok(underWay.length <= this.#lane.concurrency)
    for (const { key } of underWay) {
      if (key === null) continue
      assert.equal(underWay.filter((other) => other.key === key).length, 1, 'one of a key is under way')
    }
    const left = this.#all.filter((model) => this.#isNext(model))
    const free = underWay.length < this.#lane.concurrency
    if (starts.length < max && free) assert.deepEqual(left, [], 'nothing that may start is left')
    const { order } = this.#lane
    assert.equal(order?.size, this.#all.length - underWay.length)
    if (free && starts.length < max) assert.equal(order?.nextAt(this.#now), this.#wakes(), 'it wakes in time')
  }

  end(which: number): void {
    this.#land(which, (model) => {
      this.#lane.order?.end(model.entry, this.#now)
      this.#all = this.#all.filter((other) => other !== model)
    })
  }

  putBack(which: number, waitMs: number): void {
    this.#land(which, ({ entry }) => this.#lane.order?.putBack(entry, this.#now + waitMs, this.#now))
  }

  hold(which: number, waitMs: number): void {
    const waiting = this.#all.filter(({ entry }) => entry.state === 'waiting')
    const model = waiting[which % Math.max(1, waiting.length)]
    if (!model) return
    this.#lane.order?.delay(model.entry, this.#now + waitMs, this.#now)
    this.#scheduler.reconsider(this.#lane, this.#now)
  }

  vanish(which: number): void {
    const waiting = this.#all.filter(({ entry }) => entry.state === 'waiting')
    const model = waiting[which % Math.max(1, waiting.length)]
    if (!model) return
    this.#lane.order?.end(model.entry, this.#now)
    this.#scheduler.reconsider(this.#lane, this.#now)
    this.#all = this.#all.filter((other) => other !== model)
  }

  pass(ms: number): void {
    this.#now += ms
  }

  #land(which: number, then: (model: Model) => void): void {
    const flying = this.#all.filter(({ entry }) => entry.state === 'under way')
    const model = flying[which % Math.max(1, flying.length)]
    if (!model) return
    this.#scheduler.finish(this.#lane, this.#now)
    then(model)
    this.#scheduler.reconsider(this.#lane, this.#now)
  }

  #of(item: number): Model {
    return this.#all.find(({ entry }) => entry.item === item) as Model
  }

  #mayStart({ entry, key }: Model, before: readonly Model[], taken: ReadonlySet<number>): void {
    assert.ok(entry.waitsUntil <= this.#now, 'nothing starts before its time')
    if (key === null) return
    for (const other of before) {
      if (other.key !== key || other.entry === entry) continue
      assert.ok(!taken.has(other.entry.item), 'two of a key')
      if (other.entry.class === replay) continue
      assert.ok(entry.class !== replay, 'a replay before what has a place')
      assert.ok(isBefore(entry, other.entry), 'out of order')
    }
  }

  /** Whether nothing of its key keeps it back. */
  #isNext({ entry, key }: Model, at = this.#now): boolean {
    if (entry.state !== 'waiting' || entry.waitsUntil > at) return false
    if (key === null) return true
    const file = this.#all.filter((other) => other.key === key && other.entry !== entry)
    if (file.some((other) => other.entry.state === 'under way')) return false
    const placed = file.filter((other) => other.entry.class !== replay)
    return entry.class === replay ? placed.length === 0 : placed.every((other) => isBefore(entry, other.entry))
  }

  #wakes(): number {
    const ends = this.#all.map(({ entry }) => Math.max(this.#now, entry.waitsUntil)).toSorted((a, b) => a - b)
    return ends.find((at) => this.#all.some((model) => this.#isNext(model, at))) ?? Number.POSITIVE_INFINITY
  }
}

const nat = fc.nat(1000)
const anyKey = fc.constantFrom(null, 1, 1, 2, 3)
const anyClass = fc.constantFrom<Class>(fresh, fresh, timed, replay)
const anyWait = fc.constantFrom(0, 0, 0, 0, 0, 5, 40, Number.POSITIVE_INFINITY)
const anyStep: fc.Arbitrary<(bench: Bench) => void> = fc.oneof(
  fc.tuple(fc.nat(50), anyKey, anyClass, anyWait).map((args) => (bench: Bench) => bench.add(...args)),
  fc.tuple(fc.nat(50), anyKey, anyClass, anyWait).map((args) => (bench: Bench) => bench.add(...args)),
  fc.constantFrom(1, 2, 100).map((max) => (bench: Bench) => bench.plan(max)),
  nat.map((which) => (bench: Bench) => bench.end(which)),
  fc.tuple(nat, anyWait).map((args) => (bench: Bench) => bench.putBack(...args)),
  fc.tuple(nat, anyWait).map((args) => (bench: Bench) => bench.hold(...args)),
  nat.map((which) => (bench: Bench) => bench.vanish(which)),
  fc.nat(30).map((ms) => (bench: Bench) => bench.pass(ms)),
)

for (const ordering of ['fifo', 'key'] as const) {
  test(`whatever happens, a lane with order ${ordering} starts the first of each key, one at a time, and in time`, () => {
    let started = 0
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 120, size: 'max' }), (steps) => {
        const bench = new Bench(ordering)
        for (const step of steps) step(bench)
        bench.plan(1000)
        started += bench.started
      }),
      { numRuns: 300 },
    )
    assert.ok(started > 500, `${started} deliveries were started`)
  })
}
