import assert from 'node:assert/strict'
import { Job } from '../../src/domain/turns.ts'
import { TaskRunner } from '../../src/engine/worker-jobs.ts'
import { queuedPerStep } from '../../src/features/tasks/rules.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { type Store, StoreTrouble } from '../../src/store/store.ts'
import { type Harness, World } from '../store/conformance/harness.ts'
import { testVault } from '../store/test-vault.ts'
import { runMicrotasks, VirtualClock } from '../virtual-clock.ts'
import { faultyStore, type StoreFaults } from './faulty-store.ts'
import { SimProcess } from './process.ts'
import { Seeded } from './seeded.ts'

const second = 1000
const troubledMs = 60 * second

/** A bug put in on purpose: the store as workers see it. */
export type ReplayingPlant = (store: Store, clock: VirtualClock) => Store

interface Queueing {
  readonly at: number
  readonly count: number
}

/**
 * Workers that replay dead letters at a pace, real ones over a real store in virtual time: they are killed, stand still
 * and lose answers, while an operator pauses the task and resumes it. Whatever the seed, each dead letter is replayed
 * once, never faster than the pace, and never while the task is paused.
 */
export class ReplayingWorld {
  readonly clock = new VirtualClock(undefined, runMicrotasks)
  readonly #chance: Seeded
  readonly #faults: StoreFaults
  readonly #plant: ReplayingPlant
  readonly #processes = new Set<SimProcess>()
  readonly #queued: Queueing[] = []
  readonly #pauses: { from: number; until: number }[] = []
  readonly #jumps: number[] = []
  readonly #perSecond: number
  #store!: Store
  #names = 0
  #ended = false

  constructor(seed: number, plant: ReplayingPlant = (store) => store) {
    this.#plant = plant
    const chance = new Seeded(seed)
    this.#chance = chance
    this.#perSecond = chance.pick([1, 3, 10, 50])
    const harsh = chance.next()
    this.#faults = {
      on: true,
      busy: 0.05 * harsh,
      lostAnswer: 0.05 * harsh,
      crash: chance.chance(0.7) ? 0.02 * harsh : 0,
      latencyMs: chance.pick([
        [0, 0],
        [0, 5],
        [0, 100],
      ] as const),
    }
  }

  async run(): Promise<void> {
    const chance = this.#chance
    const { clock } = this
    const context = { clock, random: chance.next, randomText: chance.text, vault: testVault }
    this.#store = await openSqliteStore(context, { path: ':memory:', role: 'owner' })
    try {
      const count = chance.between(1, 20 * this.#perSecond)
      const id = await this.#makeDead(count)
      for (let i = chance.between(1, 3); i > 0; i--) this.#startProcess()
      this.#trouble(id)
      await clock.advance(troubledMs)
      this.#faults.on = false
      await this.#order(id, 'resume')
      await clock.advance(60 * second + (count / this.#perSecond) * 2 * second)
      await this.#check(id, count)
    } finally {
      this.#ended = true
      for (const process of this.#processes) process.kill(clock.steady())
      await this.#store.close()
    }
  }

  /** Dead letters, and the task that is to replay them. */
  async #makeDead(count: number): Promise<string> {
    const world = new World({ store: this.#store } as Harness)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join(24 * 3600 * second)
    const publication = await world.publication([endpoint])
    await this.#store.publish(Array.from({ length: count }, () => publication))
    for (let rows = await world.rows(endpoint); rows.length > 0; rows = await world.rows(endpoint)) {
      const died = rows.map((row) => world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
      await world.settle(worker, ...died)
    }
    this.#deliverAtOnce(world, worker, endpoint)
    const any = {
      endpoint: null,
      message: null,
      eventTypes: null,
      reason: null,
      after: 0,
      before: Number.MAX_SAFE_INTEGER,
    }
    const input = { ...any, perSecond: this.#perSecond }
    const task = { app: endpoint.app, work: { type: 'dead.replay', input } as const, data: {} }
    return (await this.#store.createTask(task)).id
  }

  /** A replayed delivery ends in the same instant, so that a second replay would show. */
  #deliverAtOnce(world: World, worker: number, endpoint: Awaited<ReturnType<World['endpoint']>>): void {
    const look = async () => {
      const rows = this.#ended ? [] : await world.rows(endpoint, 2)
      if (rows.length > 0) {
        this.#queued.push({ at: this.clock.steady(), count: rows.length })
        const delivered = rows.map((row) => world.settlement(endpoint, row, { state: 'delivered' }))
        await world.settle(worker, ...delivered)
      }
    }
    const store = this.#store
    store.watch({ rows: () => void look(), lanes() {}, settings() {} })
  }

  /** A worker does tasks as the engine does. */
  #startProcess(): void {
    if (this.#ended) return
    const chance = this.#chance
    const process = new SimProcess(`worker ${++this.#names}`, this.clock)
    const store = faultyStore(this.#plant(this.#store, this.clock), process, this.clock, chance, this.#faults)
    const runner = new TaskRunner(
      store,
      process.clock,
      (restMs) => void process.clock.after(restMs, () => tasks.request()),
    )
    const tasks = new Job(
      process.clock,
      () => runner.step(),
      (error) => assert.ok(error instanceof StoreTrouble, String(error)),
    )
    const look = () => {
      tasks.request()
      process.clock.after(second, look)
    }
    this.#processes.add(process)
    process.onDeath(() => {
      tasks.stop()
      this.#processes.delete(process)
      this.clock.after(chance.between(0, 5 * second), () => this.#startProcess())
    })
    look()
  }

  #trouble(id: string): void {
    const { clock } = this
    const chance = this.#chance
    const kinds = chance.pick([['kill'], ['pause'], ['kill', 'stall', 'pause'], ['stall', 'jump']] as const)
    const next = async () => {
      if (clock.steady() >= troubledMs) return
      const process = chance.pick([...this.#processes])
      const kind = chance.pick([...kinds])
      if (kind === 'kill') process?.kill(clock.steady())
      if (kind === 'stall') process?.stall(clock.steady() + chance.between(1, 15 * second))
      if (kind === 'jump') {
        clock.jump(chance.between(-3600, 3600) * second)
        this.#jumps.push(clock.steady())
      }
      if (kind === 'pause') await this.#order(id, chance.pick(['pause', 'resume', 'resume']))
      clock.after(chance.between(1, 4 * second), () => void next())
    }
    clock.after(chance.between(1, 4 * second), () => void next())
  }

  async #order(id: string, order: 'pause' | 'resume'): Promise<void> {
    const now = this.clock.steady()
    const last = this.#pauses.at(-1)
    if (order === 'resume' && last !== undefined) last.until = Math.min(last.until, now)
    const answer = await this.#store.commandTask(id, order)
    if (order === 'pause' && typeof answer === 'object' && (last?.until ?? 0) <= now) {
      this.#pauses.push({ from: now, until: Number.POSITIVE_INFINITY })
    }
  }

  async #check(id: string, count: number): Promise<void> {
    const task = await this.#store.findTask(id)
    assert.equal(task?.status, 'finished', 'the task never ended')
    assert.deepEqual(task.data, { scanned: count, replayed: count, total: count })
    const sum = this.#queued.reduce((total, { count: some }) => total + some, 0)
    assert.equal(sum, count, `${sum} were replayed of ${count}`)
    const step = queuedPerStep({ perSecond: this.#perSecond })
    for (const [i, { at: from }] of this.#queued.entries()) {
      let within = 0
      for (const { at, count: some } of this.#queued.slice(i)) {
        within += some
        // A clock that is set ends a rest early.
        const jumps = this.#jumps.filter((jump) => jump >= from - second && jump <= at).length
        const most = step * (1 + jumps) + Math.ceil(((at - from) * this.#perSecond) / second)
        assert.ok(within <= most, `${within} within ${at - from} ms, at ${this.#perSecond} a second`)
      }
    }
    for (const { from, until } of this.#pauses) {
      const meanwhile = this.#queued.filter(({ at }) => at > from && at < until)
      assert.deepEqual(meanwhile, [], `replayed although paused from ${from} to ${until}`)
    }
  }
}
