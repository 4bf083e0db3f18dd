import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Class } from '../../src/domain/delivery.ts'
import type { Lane, LaneLimits, SchedulerLimits, Start } from '../../src/domain/lane.ts'
import { Scheduler } from '../../src/domain/scheduler.ts'

/** The model of a lane: the state that the scheduler needs, in the simplest form. */
interface ModelLane {
  readonly lane: Lane<number>
  readonly app: number
  readonly queues: [number[], number[], number[]]
  holdUntil: number
  concurrency: number
  closed: boolean
  removed: boolean
}

interface Flight {
  readonly owner: ModelLane
  readonly start: Start<number>
  readonly at: number
  left: boolean
}

/** Runs a scheduler beside its model and checks after every step that they agree. */
class Bench {
  readonly #scheduler: Scheduler<number>
  readonly #limits: SchedulerLimits
  readonly #lanes: ModelLane[] = []
  #flights: Flight[] = []
  #now = 0
  #nextItem = 0
  #started = 0

  constructor(limits: SchedulerLimits) {
    this.#limits = limits
    this.#scheduler = new Scheduler(limits)
  }

  get started(): number {
    return this.#started
  }

  add(app: number, limits: LaneLimits, holdMs: number): void {
    const lane = this.#scheduler.add(this.#lanes.length, app, limits, { bucketDebtMs: 0, holdMs }, this.#now)
    const { concurrency } = limits
    const holdUntil = this.#now + holdMs
    this.#lanes.push({ lane, app, queues: [[], [], []], holdUntil, concurrency, closed: false, removed: false })
  }

  offer(which: number, itsClass: Class, count: number): void {
    const model = this.#pick(which)
    if (!model) return
    for (let i = 0; i < count; i++) {
      model.queues[itsClass].push(this.#nextItem)
      this.#scheduler.offer(model.lane, itsClass, this.#nextItem++, this.#now)
    }
  }

  pass(ms: number): void {
    this.#now += ms
  }

  /** Passes time until the instant the scheduler asked to be woken at. */
  passToWake(): void {
    this.#now = Math.max(this.#now, this.#scheduler.wakeAt() ?? this.#now)
  }

  hold(which: number, ms: number): void {
    const model = this.#pick(which)
    if (!model) return
    model.holdUntil = Math.max(model.holdUntil, this.#now + ms)
    model.lane.hold(this.#now + ms)
  }

  reshape(which: number, limits: LaneLimits): void {
    const model = this.#pick(which)
    if (!model) return
    model.concurrency = limits.concurrency
    model.lane.reshape(limits, this.#now)
    this.#scheduler.reconsider(model.lane, this.#now)
  }

  toggle(which: number): void {
    const model = this.#pick(which)
    if (!model) return
    model.closed = !model.closed
    model.lane.closed = model.closed
    if (!model.closed) this.#scheduler.reconsider(model.lane, this.#now)
  }

  remove(which: number): void {
    const model = this.#pick(which)
    if (!model) return
    model.removed = true
    assert.deepEqual(this.#scheduler.remove(model.lane), model.queues.flat(), 'all that was queued comes back')
    model.queues.fill([])
  }

  leave(which: number): void {
    const flight = this.#flights[which % Math.max(1, this.#flights.length)]
    if (!flight || flight.left) return
    flight.left = true
    flight.start.bucket?.spend(this.#now)
  }

  finish(which: number): void {
    const flight = this.#land(which)
    if (!flight) return
    if (!flight.left) flight.start.bucket?.restore()
    const result = which % 2 === 0 ? 'delivered' : 'failed'
    this.#scheduler.finish(flight.owner.lane, this.#now, { slotMs: this.#now - flight.at, result })
  }

  giveBack(which: number): void {
    const flight = this.#land(which)
    if (!flight) return
    if (flight.left) return this.#scheduler.finish(flight.owner.lane, this.#now)
    if (!flight.owner.removed) flight.owner.queues[flight.start.class].unshift(flight.start.item)
    this.#scheduler.giveBack(flight.start, this.#now)
  }

  plan(max: number): void {
    const hadWork = this.#scheduler.hasWork(this.#now)
    const starts = this.#scheduler.plan(this.#now, max)
    assert.ok(hadWork || starts.length === 0, 'a plan without work starts nothing')
    assert.ok(starts.length <= max)
    for (const start of starts) this.#take(start)
    this.#checkCounts()
    if (starts.length < max) this.#checkNothingWasLeftOut()
  }

  #take(start: Start<number>): void {
    const owner = this.#lanes[start.lane.endpoint] as ModelLane
    assert.ok(!owner.removed && !owner.closed, 'only an open lane starts')
    assert.ok(owner.holdUntil <= this.#now, 'a hold is kept')
    // Neither lost, nor invented, nor out of order: it is the first of its class.
    assert.equal(start.item, owner.queues[start.class].shift())
    this.#flights.push({ owner, start, at: this.#now, left: false })
    assert.ok(this.#countOf(owner) <= owner.concurrency, 'the cap of a lane')
    this.#started++
  }

  #checkCounts(): void {
    assert.equal(this.#scheduler.inFlight, this.#flights.length)
    assert.ok(this.#flights.length <= this.#limits.inFlight, 'the cap of all')
    const apps = new Map<number, number>()
    for (const { owner } of this.#flights) apps.set(owner.app, (apps.get(owner.app) ?? 0) + 1)
    for (const count of apps.values()) assert.ok(count <= this.#limits.inFlightPerApp, 'the cap of an application')
  }

  /** A lane that may send and does not must be one that the thresholds keep out; one that sleeps must be woken in time. */
  #checkNothingWasLeftOut(): void {
    const free = this.#limits.inFlight - this.#flights.length
    if (free === 0) return
    const wakeAt = this.#scheduler.wakeAt() ?? Number.POSITIVE_INFINITY
    for (const model of this.#lanes) {
      const queued = model.queues.flat().length
      const mine = this.#countOf(model)
      if (model.removed || model.closed || queued === 0 || mine >= model.concurrency) continue
      const ofApp = this.#flights.filter(({ owner }) => owner.app === model.app).length
      const mayTake = Math.min(free, this.#leftFor(model))
      if (mayTake <= 0) continue
      const room = Math.min(this.#limits.inFlightPerApp, 2 * mayTake) - ofApp
      // Asked again when a slot comes free, and only then.
      if ((ofApp > 0 && room <= 0) || mine >= Math.max(1, room / 2)) continue
      const readyAt = Math.max(model.holdUntil, model.lane.bucket?.readyAt(this.#now) ?? this.#now)
      // A plan leaves no entry at or before its instant. A thousandth of a millisecond is rounding.
      const late = `lane ${model.lane.endpoint} may send at ${readyAt}, now is ${this.#now}, and it sleeps until ${wakeAt}`
      assert.ok(wakeAt <= readyAt + 0.001, late)
    }
  }

  /** The slots that the reserve leaves to a lane: an eighth of the slots is for quick ones alone, another one not for slow ones. */
  #leftFor({ lane }: ModelLane): number {
    const { inFlight } = this.#limits
    const user = lane.use.userAt(this.#now)
    const held = (kind: string) => this.#flights.filter(({ owner }) => owner.lane.slotUser === kind).length
    if (user === 'quick') return inFlight
    const ofUnproved = inFlight - Math.floor(inFlight / 8) - held('slow') - held('untried')
    if (user === 'untried') return ofUnproved
    return Math.min(ofUnproved, inFlight - Math.floor(inFlight / 4) - held('slow'))
  }

  #countOf(model: ModelLane): number {
    return this.#flights.filter(({ owner }) => owner === model).length
  }

  #pick(which: number): ModelLane | undefined {
    const present = this.#lanes.filter((model) => !model.removed)
    return present[which % Math.max(1, present.length)]
  }

  #land(which: number): Flight | undefined {
    const flight = this.#flights[which % Math.max(1, this.#flights.length)]
    this.#flights = this.#flights.filter((other) => other !== flight)
    return flight
  }
}

const nat = fc.nat(1000)
const anyRate = fc.record({
  rate: fc.integer({ min: 1, max: 50 }),
  periodMs: fc.constant(1000),
  burst: fc.integer({ min: 1, max: 5 }),
})
const anyLimits: fc.Arbitrary<LaneLimits> = fc.record({
  rate: fc.option(anyRate, { nil: undefined }),
  concurrency: fc.integer({ min: 1, max: 12 }),
})
const anyClass = fc.constantFrom<Class>(0, 1, 2)

interface Step {
  run(bench: Bench): void
}

/** A step that prints itself when a property fails. */
function step<A>(
  weight: number,
  args: fc.Arbitrary<A>,
  run: (bench: Bench, args: A) => void,
): fc.WeightedArbitrary<Step> {
  const arbitrary = args.map((chosen) => ({
    run: (bench: Bench) => run(bench, chosen),
    [fc.toStringMethod]: () => `${run} with ${fc.stringify(chosen)}`,
  }))
  return { weight, arbitrary }
}

const anyStep = fc.oneof(
  step(2, fc.tuple(fc.nat(3), anyLimits, fc.constantFrom(0, 0, 50)), (bench, args) => bench.add(...args)),
  step(6, fc.tuple(nat, anyClass, fc.integer({ min: 1, max: 8 })), (bench, args) => bench.offer(...args)),
  step(6, fc.constantFrom(1, 3, 100), (bench, max) => bench.plan(max)),
  step(3, nat, (bench, which) => bench.leave(which)),
  step(5, nat, (bench, which) => bench.finish(which)),
  step(2, nat, (bench, which) => bench.giveBack(which)),
  step(2, fc.nat(60), (bench, ms) => bench.pass(ms)),
  step(1, fc.nat(20_000), (bench, ms) => bench.pass(ms)),
  step(2, fc.constant(0), (bench) => bench.passToWake()),
  step(1, fc.tuple(nat, fc.nat(200)), (bench, args) => bench.hold(...args)),
  step(1, fc.tuple(nat, anyLimits), (bench, args) => bench.reshape(...args)),
  step(1, nat, (bench, which) => bench.toggle(which)),
  step(1, nat, (bench, which) => bench.remove(which)),
)

test('whatever happens, caps hold, nothing is lost or sent twice, and no free slot is left to a lane that may send', () => {
  let started = 0
  const anyCaps = fc.record({
    inFlight: fc.integer({ min: 1, max: 40 }),
    inFlightPerApp: fc.integer({ min: 1, max: 25 }),
  })
  fc.assert(
    fc.property(anyCaps, fc.array(anyStep, { maxLength: 300, size: 'max' }), (limits, list) => {
      const bench = new Bench(limits)
      for (const step of list) step.run(bench)
      bench.plan(1000)
      started += bench.started
    }),
    { numRuns: 300 },
  )
  // A property that never starts anything would hold for a scheduler that does nothing.
  assert.ok(started > 3000, `${started} deliveries were started`)
})
