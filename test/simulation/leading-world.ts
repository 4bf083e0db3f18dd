import assert from 'node:assert/strict'
import type { Schedule } from '../../src/features/schedules/noun.ts'
import { nextTicks } from '../../src/features/schedules/rules.ts'
import { Publisher } from '../../src/intake/publisher.ts'
import { Leader } from '../../src/leader/leader.ts'
import { leaderJobs } from '../../src/leader/leader-jobs.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { type Store, StoreTrouble } from '../../src/store/store.ts'
import { plainSchedule } from '../store/conformance/schedules.ts'
import { testVault } from '../store/test-vault.ts'
import { runMicrotasks, VirtualClock } from '../virtual-clock.ts'
import { faultyStore, type StoreFaults } from './faulty-store.ts'
import { SimProcess } from './process.ts'
import { Seeded } from './seeded.ts'

const second = 1000
const minute = 60 * second
const leaseMs = 5 * second
const troubledMs = 8 * minute

/** A bug put in on purpose: the store as leaders see it. */
export type LeadingPlant = (store: Store) => Store

/**
 * Processes that lead one after the other, real ones over a real store in virtual time: they are killed, stand still, lose
 * answers and have their clock set. Whatever the seed, every tick of every schedule is published once.
 */
export class LeadingWorld {
  readonly clock: VirtualClock
  readonly #chance: Seeded
  readonly #faults: StoreFaults
  readonly #plant: LeadingPlant
  readonly #processes = new Set<SimProcess>()
  #store!: Store
  #app = 0
  #names = 0
  #ended = false

  constructor(seed: number, plant: LeadingPlant = (store) => store) {
    this.#plant = plant
    this.#chance = new Seeded(seed)
    const chance = this.#chance
    const startsAt = Date.UTC(2026, 9, 25, 0, chance.between(0, 59), chance.between(0, 59))
    this.clock = new VirtualClock(startsAt, runMicrotasks)
    const harsh = chance.next()
    this.#faults = {
      on: true,
      busy: 0.05 * harsh,
      lostAnswer: 0.05 * harsh,
      crash: chance.chance(0.7) ? 0.01 * harsh : 0,
      latencyMs: chance.pick([
        [0, 0],
        [0, 20],
        [0, 400],
      ] as const),
    }
  }

  async run(): Promise<void> {
    const chance = this.#chance
    const context = { clock: this.clock, random: chance.next, randomText: chance.text, vault: testVault }
    this.#store = await openSqliteStore(context, { path: ':memory:', role: 'owner' })
    try {
      const application = { name: 'Acme', uid: null, throttleRate: null, metadata: {} }
      this.#app = (await this.#store.createApplication(application)).key
      const made: Schedule[] = []
      for (let i = chance.between(1, 4); i > 0; i--) made.push(await this.#addSchedule())
      for (let i = chance.between(1, 3); i > 0; i--) this.#startProcess()
      this.#troubleFor(troubledMs)
      await this.clock.advance(troubledMs)
      this.#faults.on = false
      // Ends well between two ticks, so that none is just being run.
      await this.clock.advance(2 * minute + minute / 2 - (this.clock.now() % minute))
      for (const schedule of made) await this.#check(schedule)
      await this.#checkAlive()
    } finally {
      this.#ended = true
      for (const process of this.#processes) process.kill(this.clock.steady())
      await this.#store.close()
    }
  }

  #addSchedule(): Promise<Schedule> {
    const chance = this.#chance
    return this.#store.createSchedule(this.#app, {
      ...plainSchedule,
      cron: chance.pick(['* * * * *', '*/2 * * * *', '*/5 * * * *', '1,7,30,59 * * * *']),
      timezone: chance.pick(['UTC', 'Europe/Berlin', 'Australia/Lord_Howe']),
      missed: 'all',
      missedLimit: 100,
      eventType: `tick.${++this.#names}`,
    })
  }

  #startProcess(): void {
    if (this.#ended) return
    const { clock } = this
    const chance = this.#chance
    const process = new SimProcess(`process ${++this.#names}`, clock)
    const store = faultyStore(this.#plant(this.#store), process, clock, chance, this.#faults)
    const publisher = new Publisher({ store, clock: process.clock })
    const onTrouble = (error: unknown) => {
      if (!(error instanceof StoreTrouble) && !((error as Error).cause instanceof StoreTrouble)) throw error
    }
    const leader = new Leader({
      store,
      clock: process.clock,
      leaseMs,
      candidate: { id: process.name, description: process.name },
      jobs: leaderJobs({
        clock: process.clock,
        store,
        publisher: () => publisher,
        retention: { historyMs: null, deadMs: null },
        waitingLimit: 1_000_000,
        hoursKeptMs: 90 * 86_400_000,
        leaseMs,
        onTrouble,
      }),
      onTrouble: (_job, error) => onTrouble(error),
    })
    this.#processes.add(process)
    process.onDeath(() => {
      leader.halt()
      this.#processes.delete(process)
      clock.after(chance.between(0, 20) * second, () => this.#startProcess())
    })
    leader.start()
  }

  #troubleFor(durationMs: number): void {
    const { clock } = this
    const chance = this.#chance
    const kinds = chance.pick([['kill'], ['stall'], ['kill', 'stall', 'jump'], ['kill', 'jump']] as const)
    const next = () => {
      if (clock.steady() >= durationMs) return
      const process = chance.pick([...this.#processes])
      const kind = chance.pick([...kinds])
      if (kind === 'kill') process?.kill(clock.steady())
      if (kind === 'stall') process?.stall(clock.steady() + chance.between(1, 4 * leaseMs))
      if (kind === 'jump') clock.jump(chance.between(-20, 20) * minute)
      clock.after(chance.between(1, 90) * second, next)
    }
    clock.after(chance.between(1, 90) * second, next)
  }

  /** Every tick since it was made has one message, and none has two, unless it says that it skipped some. */
  async #check(made: Schedule): Promise<void> {
    const after = (await this.#store.findSchedule(this.#app, made.id)) ?? assert.fail('the schedule is gone')
    const range = { from: 0, until: Number.MAX_SAFE_INTEGER, after: null, limit: 10_000, order: 'ascending' as const }
    const heads = await this.#store.listMessages(this.#app, range)
    const ids = heads.filter(({ eventType }) => eventType === made.eventType).map(({ eventId }) => eventId)
    const minutes = Math.max(1, Math.ceil((after.reachedAt - made.reachedAt) / minute))
    const ticks = nextTicks(made, made.reachedAt, minutes).filter((tick) => tick <= after.reachedAt)
    assert.equal(ids.length, new Set(ids).size, `${made.cron}: a tick was published twice`)
    assert.ok(ids.length <= ticks.length, `${made.cron}: ${ids.length} were published for ${ticks.length} ticks`)
    const skipped = after.runs.some(({ state }) => state === 'skipped')
    if (!skipped) assert.equal(ids.length, ticks.length, `${made.cron}: a tick was lost`)
  }

  /** When all is well again a process leads, and due jobs run. */
  async #checkAlive(): Promise<void> {
    assert.ok(await this.#store.leader(), 'nobody leads')
    const { schedules } = await this.#store.dueSchedules(10)
    assert.equal(schedules.length, 0, 'a schedule is due and does not run')
  }
}
