import assert from 'node:assert/strict'
import type { Outcome } from '../../src/domain/outcome.ts'
import { Engine } from '../../src/engine/engine.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { type Store, StoreTrouble, type Taken, type Watcher } from '../../src/store/store.ts'
import { engineParts, sendingBy } from '../engine/engine-under-test.ts'
import { plainEndpoint } from '../store/conformance/harness.ts'
import { testVault } from '../store/test-vault.ts'
import { runMicrotasks, VirtualClock } from '../virtual-clock.ts'
import { faultyStore } from './faulty-store.ts'
import { SimProcess } from './process.ts'
import { Seeded } from './seeded.ts'

const second = 1000
const leaseMs = 3 * second
const spikeMs = 2 * second
const patienceMs = 600 * second
/** Deliveries that another application may get ahead of its turns: the lanes of four claims. */
const aheadAtMost = 256
/**
 * Turns that another application gets at most beyond those of its own, between the claim of a lane and its delivery: untried lanes
 * wait for slots one by one, and 32 of an application at most may have started nothing. Seeds 1 to 6 come to 21.
 */
const turnsAheadAtMost = 48
/** Lanes that a worker holds at most, of three thousand or more: without a crowd, they stay for two idle seconds. */
const lanesHeldAtMost = 2000

const delivered: Outcome = {
  ...{ code: 'delivered', status: 204, durationMs: 1 },
  ...{ wish: undefined, retryAfterMs: undefined, response: undefined, error: undefined },
}

/** A bug put in on purpose: the store as workers see it. */
export type BreadthPlant = (store: Store) => Store

interface Tenant {
  readonly app: number
  readonly endpoints: readonly number[]
  /** When its message was accepted; its deliveries wait from then on. */
  acceptedAt: number
  readonly sentAt: number[]
}

/**
 * Hundreds of tenants with thousands of lanes, all of which get work within two seconds, in virtual time. A few tenants have
 * a thousand lanes, most have one to twenty. Whatever the seed, every delivery is made, workers hold few lanes, and while no
 * worker dies no tenant gets ahead of its turns, from the first claim on.
 */
export class BreadthWorld {
  readonly clock = new VirtualClock(undefined, runMicrotasks)
  readonly #chance: Seeded
  readonly #plant: BreadthPlant
  readonly #tenants: Tenant[] = []
  readonly #byEndpoint = new Map<number, Tenant>()
  readonly #arrivals = new Map<string, number>()
  /** The applications of the deliveries that each worker has started, in order, and how many those were when it claimed a lane. */
  readonly #started = new Map<SimProcess, number[]>()
  readonly #claimed = new Map<number, { readonly process: SimProcess; readonly after: number }>()
  #mostAhead = 0
  readonly #watchers = new Map<Watcher, SimProcess>()
  readonly #engines = new Map<SimProcess, Engine>()
  readonly #workers: number
  readonly #dies: boolean
  #names = 0
  #mostLanes = 0
  #ended = false
  #store!: Store

  constructor(seed: number, plant: BreadthPlant = (store) => store) {
    this.#plant = plant
    this.#chance = new Seeded(seed)
    this.#workers = this.#chance.pick([1, 1, 2])
    this.#dies = this.#chance.chance(0.3)
  }

  async run(): Promise<void> {
    const chance = this.#chance
    const context = { clock: this.clock, random: chance.next, randomText: chance.text, vault: testVault }
    this.#store = await openSqliteStore(context, { path: ':memory:', role: 'owner' })
    try {
      await this.#settleIn()
      for (let n = 0; n < this.#workers; n++) this.#startWorker()
      await this.clock.advance(second)
      for (const tenant of this.#tenants) {
        this.clock.after(chance.between(0, spikeMs), () => void this.#publish(tenant))
      }
      if (this.#dies) this.clock.after(chance.between(0, spikeMs), () => this.#killOne())
      await this.#runDry()
      await this.#check()
    } finally {
      this.#ended = true
      for (const process of this.#engines.keys()) process.kill(this.clock.steady())
      await this.#store.close()
    }
  }

  async #settleIn(): Promise<void> {
    const chance = this.#chance
    this.#store.watch({
      rows: (...args) => this.#signal((watcher) => watcher.rows(...args)),
      lanes: (...args) => this.#signal((watcher) => watcher.lanes(...args)),
      settings: (...args) => this.#signal((watcher) => watcher.settings(...args)),
      fanOuts: () => this.#signal((watcher) => watcher.fanOuts?.()),
    })
    const sizes = Array.from({ length: chance.between(100, 250) }, () => chance.between(1, 20))
    for (let wide = chance.between(1, 2); wide > 0; wide--) sizes[chance.between(0, sizes.length - 1)] = 1000 + wide
    for (const [n, size] of sizes.entries()) {
      const application = { name: `tenant ${n}`, uid: null, throttleRate: null, metadata: {} }
      const { key: app } = await this.#store.createApplication(application)
      const endpoints: number[] = []
      for (let e = 0; e < size; e++) {
        const { key } = await this.#store.createEndpoint(app, { ...plainEndpoint, url: 'https://receiver.test/' })
        await this.#store.updateEndpoint(app, key, { url: `https://receiver.test/${key}` })
        endpoints.push(key)
      }
      const tenant: Tenant = { app, endpoints, acceptedAt: Number.POSITIVE_INFINITY, sentAt: [] }
      this.#tenants.push(tenant)
      for (const endpoint of endpoints) this.#byEndpoint.set(endpoint, tenant)
    }
  }

  #signal(call: (watcher: Watcher) => void): void {
    for (const [watcher, process] of this.#watchers)
      process.clock.after(this.#chance.between(0, 3), () => call(watcher))
  }

  async #publish(tenant: Tenant): Promise<void> {
    const { app, endpoints } = tenant
    const { version } = (await this.#store.subscriptions(app)) ?? { version: 0 }
    const body = Buffer.from(String(app))
    const plain = { app, version, eventType: 'a', eventId: null, channels: null, contentType: 'text/plain', delayMs: 0 }
    const [published] = await this.#store.publish([{ ...plain, body, endpoints }])
    assert.equal(published?.state, 'accepted')
    tenant.acceptedAt = this.clock.steady()
  }

  #startWorker(): void {
    const { clock } = this
    const chance = this.#chance
    const process = new SimProcess(`worker ${++this.#names}`, clock)
    const faults = { on: false, busy: 0, lostAnswer: 0, crash: 0, latencyMs: [0, 3] } as const
    const faulty = faultyStore(this.#plant(this.#store), process, clock, chance, faults)
    const noted = <T extends Taken>(taken: T): T => {
      for (const { endpoint } of taken.lanes) {
        this.#claimed.set(endpoint.key, { process, after: this.#started.get(process)?.length ?? 0 })
      }
      return taken
    }
    const own: Partial<Store> = {
      watch: (watcher) => void this.#watchers.set(watcher, process),
      claim: async (...args) => noted(await faulty.claim(...args)),
      claimNamed: async (...args) => noted(await faulty.claimNamed(...args)),
    }
    const wired = new Proxy(faulty, {
      get: (target, name) => Reflect.get(name in own ? own : target, name),
    })
    const engine = new Engine({
      ...engineParts(process.clock),
      store: wired,
      sender: sendingBy((target, _message, onLeave, onEnd) => {
        const endpoint = Number(new URL(target.url).pathname.slice(1))
        const tenant = this.#byEndpoint.get(endpoint) as Tenant
        tenant.sentAt.push(clock.steady())
        this.#noteStart(process, endpoint, tenant.app)
        this.#arrivals.set(String(endpoint), (this.#arrivals.get(String(endpoint)) ?? 0) + 1)
        process.clock.soon(onLeave)
        return process.clock.after(chance.between(1, 40), () => onEnd(delivered))
      }),
      random: chance.next,
      randomText: chance.text,
      limits: { inFlight: 32, inFlightPerApp: 32 },
      leaseMs,
      onTrouble: (error) => {
        if (!(error instanceof StoreTrouble)) throw error
      },
    })
    this.#engines.set(process, engine)
    const look = () => {
      this.#mostLanes = Math.max(this.#mostLanes, engine.figures.lanes)
      process.clock.after(20, look)
    }
    look()
    void engine.start()
  }

  /** Counts the turns of each application since the lane was claimed. */
  #noteStart(process: SimProcess, endpoint: number, app: number): void {
    const started = this.#started.get(process) ?? []
    this.#started.set(process, started)
    const claimed = this.#claimed.get(endpoint)
    if (claimed?.process === process) {
      const turns = new Map<number, number>()
      for (const other of started.slice(claimed.after)) turns.set(other, (turns.get(other) ?? 0) + 1)
      const own = turns.get(app) ?? 0
      for (const count of turns.values()) this.#mostAhead = Math.max(this.#mostAhead, count - own)
    }
    started.push(app)
  }

  #killOne(): void {
    const [process] = this.#engines.keys()
    if (process === undefined || this.#ended) return
    process.kill(this.clock.steady())
    this.#engines.delete(process)
    for (const [watcher, its] of this.#watchers) if (its === process) this.#watchers.delete(watcher)
    this.clock.after(second, () => this.#startWorker())
  }

  async #runDry(): Promise<void> {
    const until = this.clock.steady() + patienceMs
    await this.clock.advance(spikeMs)
    while (this.clock.steady() < until && (await this.#store.counts()).pending > 0) await this.clock.advance(second)
  }

  async #check(): Promise<void> {
    const { pending } = await this.#store.counts()
    assert.equal(pending, 0, `${pending} deliveries never ended`)
    for (const [endpoint, tenant] of this.#byEndpoint) {
      const times = this.#arrivals.get(String(endpoint)) ?? 0
      assert.ok(times >= 1, `nothing was sent to ${endpoint} of application ${tenant.app}`)
      assert.ok(times === 1 || this.#dies, `${times} were sent to ${endpoint} although no worker died`)
    }
    const ahead = `an application got ${this.#mostAhead} turns more than another, of which a claimed lane waited`
    assert.ok(this.#mostAhead <= turnsAheadAtMost, ahead)
    assert.ok(this.#mostLanes <= lanesHeldAtMost, `a worker held ${this.#mostLanes} lanes`)
    if (!this.#dies) for (const tenant of this.#tenants) this.#checkTurns(tenant)
  }

  /** While a tenant has deliveries that wait, no other one gets more than its own number, but for the lanes of some claims. */
  #checkTurns({ app, acceptedAt, sentAt }: Tenant): void {
    const own = sentAt.length
    const doneAt = sentAt.at(-1) as number
    for (const other of this.#tenants) {
      if (other.app === app) continue
      const meanwhile = other.sentAt.filter((at) => at > acceptedAt && at < doneAt).length
      const allowed = own + aheadAtMost * this.#workers
      assert.ok(
        meanwhile <= allowed,
        `application ${other.app} got ${meanwhile} deliveries while ${own} of application ${app} waited, ${allowed} allowed`,
      )
    }
  }
}
