import { AppError } from '../../src/domain/app-error.ts'
import { fresh } from '../../src/domain/delivery.ts'
import { Matcher } from '../../src/domain/match.ts'
import { allAtOnce, Job } from '../../src/domain/turns.ts'
import { Engine } from '../../src/engine/engine.ts'
import type { Notice } from '../../src/features/notices/rules.ts'
import { defaultRegion, type Regions } from '../../src/features/regions/rules.ts'
import { Admission } from '../../src/intake/admission.ts'
import { Work } from '../../src/intake/preparer.ts'
import { appSubscriptions } from '../../src/intake/subscriptions.ts'
import { Forms, treat } from '../../src/intake/treatments.ts'
import { RestingSweep } from '../../src/leader/resting-sweep.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import type { Sender } from '../../src/sender/send.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { type NewEndpoint, type Store, type StoredMessage, StoreTrouble, type Watcher } from '../../src/store/store.ts'
import { serverDefaults } from '../engine/engine-under-test.ts'
import { testVault } from '../store/test-vault.ts'
import { runMicrotasks, VirtualClock } from '../virtual-clock.ts'
import { check } from './check.ts'
import { randomBounds, unbounded } from './check-bounds.ts'
import type { CircuitFact } from './check-health.ts'
import { unordered } from './check-order.ts'
import { randomRegions, regionNames, shareOfRegions } from './check-regions.ts'
import { flowOf, randomForm } from './check-shaping.ts'
import { faultyStore, type StoreFaults } from './faulty-store.ts'
import type { EndpointFacts, History, PublishFact, WorkerFact } from './history.ts'
import { type NoticeTime, timesOf } from './notice-times.ts'
import { Observer } from './observer.ts'
import { Operator } from './operator.ts'
import { SimProcess } from './process.ts'
import { healthy, simulatedSender, type Temper } from './receivers.ts'
import { Seeded } from './seeded.ts'
import { leastWaitsOf, randomHealth, randomPolicy, randomTemper } from './wishes.ts'

const leaseMs = 3000
const troubledMs = 40_000
const second = 1000
const sweepMs = 15_000
const roomy = { perEndpoint: 1e6, perApplication: 1e6, server: 1e6, commitDelayMs: 1e6 }

/** A bug put in on purpose, to see that the checks catch it. */
export interface Plant {
  /** A seed that catches it, where the first seeds do not: it is tried first. */
  readonly seed?: number
  /** How long the healed world is watched, where a day is not needed to see that something never ends. */
  readonly patienceMs?: number
  store?(store: Store): Store
  /** The store as a worker uses it: its reads are written down. */
  reader?(store: Store): Store
  sender?(sender: Sender): Sender
  /** The store as publishers see it. */
  publisher?(store: Store): Store
  /** The store as the explainer sees it. */
  observer?(store: Store): Store
  /** A worker's watcher, as the store sees it. */
  watcher?(watcher: Watcher): Watcher
}

/**
 * Real scheduler, real verdicts, real engine, real SQLite in memory; virtual time, simulated wires, and everything that
 * can go wrong going wrong by the seed. After forty bad seconds the world heals, and what was accepted must end.
 */
export class World {
  readonly clock = new VirtualClock(undefined, runMicrotasks)
  readonly chance: Seeded
  readonly history: History = {
    endpoints: [],
    published: [],
    arrivals: [],
    holds: [],
    unfenced: [],
    jumps: [],
    stops: [],
    retried: new Set(),
    predictions: [],
    tries: [],
    begun: [],
    appRates: new Map(),
    appSlots: new Map(),
    circuits: [],
    orders: [],
    untried: [],
    stalled: false,
    startedAt: this.clock.now(),
    healedAt: Number.POSITIVE_INFINITY,
    disturbances: [],
    endedAt: 0,
    gaveWay: new Map(),
    attentive: true,
    touches: [],
  }
  readonly faults: StoreFaults
  readonly #plant: Plant
  readonly #tempers = new Map<number, Temper>()
  readonly #workers = new Map<SimProcess, Engine>()
  readonly #watchers = new Map<Watcher, SimProcess>()
  readonly #missed: number
  readonly #workerCount: number
  /** The operator has a seed of its own, so that everything else stays as it was without an operator. */
  readonly #operator: Seeded
  /** So has the explainer. */
  readonly #observer: Seeded
  /** So has what endpoints want beyond the plain, and what messages have for it. */
  readonly #wishes: Seeded
  /** So has what goes in order. */
  readonly #order: Seeded
  /** So has when receivers are down, and what becomes of that. */
  readonly #ailing: Seeded
  /** So has how much may wait, and until when it is wanted. */
  readonly #bounds: Seeded
  /** So has how many attempts applications may have under way. */
  readonly #limiting: Seeded
  /** So has in which form messages arrive. */
  readonly #forms: Seeded
  /** So has which worker is the one that published. */
  readonly #handing: Seeded
  /** So has which regions there are. */
  readonly #regions: Seeded
  /** Endpoints are in regions and change them, and workers serve some regions only. */
  readonly #regional: boolean
  /** Nothing goes in order, gives way or has a form of its own: messages go straight to lanes that have caught up. */
  readonly #plainly: boolean
  /** How much waits, as the publisher knows it. */
  /** The waiting deliveries, counted in rounds: the processes of this world report no deltas. */
  #ledger!: Ledger
  readonly #outages = new Map<number, readonly [from: number, until: number]>()
  /** Between which moments a notice was sent, by the notice. */
  readonly #noticeTimes = new Map<Notice, NoticeTime>()
  #stalled = false
  #store!: Store
  #healed = false
  #names = 0
  #bodies = 0
  #moments = 0
  /** Leases as the store counts them, to know the instant at which a worker is declared dead. */
  readonly #leases = new Map<number, { until: number; worker: WorkerFact; known: boolean }>()

  constructor(seed: number, plant: Plant = {}) {
    this.#plant = plant
    this.chance = new Seeded(seed)
    const { chance } = this
    const harsh = chance.next()
    this.faults = {
      on: true,
      busy: 0.03 * harsh,
      lostAnswer: 0.02 * harsh,
      crash: chance.chance(0.6) ? 0.004 * harsh : 0,
      latencyMs: chance.pick([
        [0, 0],
        [0, 2],
        [0, 15],
      ] as const),
    }
    this.#regions = new Seeded(seed + 9_000_000)
    this.#regional = this.#regions.chance(0.2)
    const missed = chance.pick([0, 0.1, 0.5])
    // A lane that is moved is watched closely only where every worker hears of it.
    this.#missed = this.#regional && this.#regions.chance(0.7) ? 0 : missed
    this.history.attentive = this.#missed === 0
    this.#operator = new Seeded(seed + 1_000_000)
    this.#observer = new Seeded(seed + 2_000_000)
    this.#wishes = new Seeded(seed + 3_000_000)
    this.#order = new Seeded(seed + 5_000_000)
    this.#ailing = new Seeded(seed + 4_000_000)
    this.#bounds = new Seeded(seed + 6_000_000)
    this.#forms = new Seeded(seed + 7_000_000)
    this.#limiting = new Seeded(seed + 10_000_000)
    this.#handing = new Seeded(seed + 8_000_000)
    this.#plainly = this.#handing.chance(0.3)
    this.#workerCount = chance.between(1, 3)
  }

  /** Runs the whole story and checks it. */
  async run(): Promise<void> {
    const { clock, chance } = this
    this.#store = await openSqliteStore(
      { clock, random: chance.next, randomText: chance.text, vault: testVault },
      { path: ':memory:', role: 'owner' },
    )
    try {
      await this.#settleIn()
      this.#ledger = new Ledger({ store: this.#store, clock })
      this.#ledger.start()
      for (let slot = 0; slot < this.#workerCount; slot++) this.#startWorker(slot)
      this.#publishFor(troubledMs)
      this.#troubleFor(troubledMs)
      if (this.#regional) this.#moveFor(troubledMs)
      const operator = this.#operate()
      const observer = this.#observe()
      await clock.advance(troubledMs)
      // Only publishers ask how much waits, and there are none any more.
      this.#ledger.stop()
      await this.#heal()
      await this.#runDry(operator)
      observer.stop()
      this.history.endedAt = clock.steady()
      await check(this.history, this.#store)
    } finally {
      for (const process of this.#workers.keys()) process.kill(clock.steady())
      await this.#store.close()
    }
  }

  async #settleIn(): Promise<void> {
    const { chance } = this
    for (let a = chance.between(1, 3); a > 0; a--) {
      const throttleRate = this.#ailing.pick([null, null, null, 3])
      const maxInFlight = this.#limiting.pick([undefined, undefined, 1, 2, 3])
      const settings = maxInFlight === undefined ? {} : { maxInFlight }
      const names = { name: `app ${a}`, uid: null, metadata: {} }
      const app = await this.#store.createApplication({ ...names, throttleRate, settings })
      if (throttleRate !== null) this.history.appRates.set(app.key, throttleRate)
      if (maxInFlight !== undefined) this.history.appSlots.set(app.key, maxInFlight)
      for (let e = chance.between(1, 3); e > 0; e--) await this.#addEndpoint(app.key)
    }
    this.#store.watch({
      rows: (...args) => this.#signal((watcher) => watcher.rows(...args)),
      stored: (messages, begunAt) => this.#handOn(messages, begunAt),
      lanes: () => this.#signal((watcher) => watcher.lanes()),
      settings: (...args) => this.#signal((watcher) => watcher.settings(...args)),
      asked: (...args) => this.#signal((watcher) => watcher.asked?.(...args)),
    })
  }

  async #addEndpoint(app: number): Promise<void> {
    const { chance } = this
    const limited = chance.chance(0.5)
    const retry = randomPolicy(chance)
    const order = this.#plainly ? 'none' : this.#order.pick(['none', 'none', 'fifo', 'key'] as const)
    const deadHead = this.#order.pick(['skip', 'skip', 'block'] as const)
    const coalesce =
      this.#wishes.chance(0.3) && order === 'none' && !this.#plainly
        ? { windowMs: this.#wishes.between(2000, 8000), key: '/subject' }
        : null
    const health = randomHealth(this.#ailing)
    const bounds = randomBounds(this.#bounds)
    const region = this.#regional ? this.#regions.pick(regionNames) : defaultRegion
    const form = this.#plainly ? { shaped: false, secrets: [] } : randomForm(this.#forms)
    const input: NewEndpoint = {
      url: 'https://unset.test/',
      uid: null,
      description: '',
      disabled: false,
      paused: false,
      eventTypes: chance.pick([null, ['*'], ['video.*'], ['video.up', 'audio.up']]),
      channels: null,
      secrets: form.secrets.map((secret) => ({ secret, expiresAt: null })),
      method: 'POST',
      headers: {},
      auth: null,
      clientCertificate: null,
      metadata: {},
      throttleRate: limited ? chance.pick([1, 5, 20]) : null,
      throttlePeriodSeconds: 1,
      burst: limited ? chance.between(1, 6) : null,
      concurrency: chance.pick([1, 2, 8]),
      timeoutMs: chance.pick([500, 2500]),
      retry,
      flow: {
        ...{ coalesce, order, deadHead, ...health, ...bounds, ...flowOf(form, this.#forms) },
        ...(this.#regional && { region }),
      },
    }
    const created = await this.#store.createEndpoint(app, input)
    await this.#store.updateEndpoint(app, created.key, { url: `https://receiver.test/${created.key}` })
    const facts: EndpointFacts = {
      key: created.key,
      app,
      rate: limited
        ? { rate: input.throttleRate as number, periodMs: second, burst: input.burst as number }
        : undefined,
      concurrency: order === 'fifo' ? 1 : (input.concurrency as number),
      leastWaitsMs: leastWaitsOf(retry),
      retryAfter: retry.retryAfter ?? 'receiver',
      coalesces: coalesce !== null,
      order,
      deadHead,
      health,
      bounds,
      form,
      stays: [{ from: 0, region }],
    }
    this.history.endpoints.push(facts)
    this.#tempers.set(created.key, { ...randomTemper(chance), crowd: this.#ailing.pick([0, 0, 0, 0.1]) })
    if (this.#ailing.chance(0.5)) {
      const from = this.#ailing.between(0, troubledMs)
      this.#outages.set(created.key, [from, from + this.#ailing.between(3, 25) * second])
    }
  }

  /** One of the workers is signalled by the publish, sometimes long after others have read its rows. */
  #handOn(messages: readonly StoredMessage[], begunAt: number): readonly number[] {
    const endpoints = [...new Set(messages.flatMap(({ publication }) => publication.endpoints))]
    if (endpoints.length === 0) return []
    const own = this.#handing.chance(0.8) ? this.#handing.pick([...this.#watchers.keys()]) : undefined
    if (this.#handing.chance(0.3)) this.#signal((watcher) => watcher === own || watcher.rows(endpoints, fresh))
    else this.#signal((watcher) => watcher === own || this.#nameLater(watcher, messages))
    if (own === undefined) return []
    this.#watchers.get(own)?.clock.after(this.#handing.pick([0, 3, 100]), () => {
      const unread = own.stored?.(messages, begunAt) ?? endpoints
      if (unread.length > 0) own.rows(unread, fresh)
    })
    return []
  }

  /** A worker is told the names of rows, sometimes long after it has read them. */
  #nameLater(watcher: Watcher, messages: readonly StoredMessage[]): void {
    const names = messages.flatMap(({ publication, identity, dueAt }) =>
      publication.endpoints.map((endpoint) => ({ endpoint, message: identity.key, dueAt })),
    )
    this.#watchers.get(watcher)?.clock.after(this.#handing.pick([0, 3, 100]), () => watcher.named?.(names))
  }

  #signal(call: (watcher: Watcher) => void): void {
    for (const [watcher, process] of this.#watchers) {
      if (!process.alive) this.#watchers.delete(watcher)
      else if (!this.chance.chance(this.#missed)) process.clock.after(this.chance.between(0, 5), () => call(watcher))
    }
  }

  #watch(watcher: Watcher, process: SimProcess): void {
    this.#watchers.set(this.#plant.watcher?.(watcher) ?? watcher, process)
  }

  #temperOf(endpoint: number): Temper {
    if (this.#healed) return healthy
    const temper = this.#tempers.get(endpoint) ?? healthy
    const [from, until] = this.#outages.get(endpoint) ?? [0, 0]
    const now = this.clock.steady()
    return now >= from && now < until ? { ...temper, fail: 1 } : temper
  }

  /** A worker that starts again after its death may serve other regions. */
  #regionsOf(slot: number): Regions {
    if (!this.#regional) return null
    return this.#healed ? shareOfRegions(slot, this.#workerCount) : randomRegions(this.#regions)
  }

  /** An operator moves lanes from region to region. */
  #moveFor(durationMs: number): void {
    const { clock, history } = this
    const next = () => {
      if (clock.steady() >= durationMs) return
      const { app, key, stays } = this.#regions.pick(history.endpoints)
      const region = this.#regions.pick(regionNames)
      stays.push({ from: clock.steady(), region })
      void this.#store.updateEndpoint(app, key, { flow: { region } })
      clock.after(this.#regions.between(500, 6000), next)
    }
    clock.after(this.#regions.between(500, 6000), next)
  }

  #startWorker(slot: number): void {
    const { clock, chance, history } = this
    const process = new SimProcess(`worker ${++this.#names}`, clock)
    const regions = this.#regionsOf(slot)
    const worker: WorkerFact = { name: process.name, regions, losses: [] }
    const real = this.#witnessed(this.#plant.store?.(this.#store) ?? this.#store, worker)
    const store = faultyStore(this.#plant.reader?.(real) ?? real, process, clock, chance, this.faults)
    const wired = new Proxy(store, {
      get: (target, name) =>
        name === 'watch' ? (watcher: Watcher) => this.#watch(watcher, process) : Reflect.get(target, name),
    })
    const timed = timesOf(
      wired,
      () => clock.steady(),
      () => this.#stalled,
      this.#noticeTimes,
    )
    const temperOf = (endpoint: number) => this.#temperOf(endpoint)
    const sender = simulatedSender({ world: clock, process, worker, chance, history, temperOf })
    const engine = new Engine({
      store: timed,
      sender: this.#plant.sender?.(sender) ?? sender,
      clock: process.clock,
      random: chance.next,
      randomText: chance.text,
      limits: chance.pick([
        { inFlight: 4, inFlightPerApp: 3 },
        { inFlight: 64, inFlightPerApp: 64 },
      ]),
      leaseMs,
      regions,
      serverDefaults: { ...serverDefaults, timeoutMs: 2000 },
      waitingLimit: 1_000_000,
      health: { circuit: undefined, disableAfterMs: 0 },
      description: process.name,
      log: () => learn(worker, clock.steady()),
      onTrouble: (error) => {
        if (!(error instanceof StoreTrouble)) throw error
      },
    })
    this.#sweep(timed, process)
    this.#workers.set(process, engine)
    process.onDeath(() => {
      worker.losses.push({ at: clock.steady(), knownAt: clock.steady() })
      this.#workers.delete(process)
      const restMs = chance.between(0, 2000)
      history.disturbances.push({ from: clock.steady(), until: clock.steady() + restMs + 2 * leaseMs })
      clock.after(restMs, () => this.#startWorker(slot))
    })
    engine.start().catch((error) => {
      if (!(error instanceof StoreTrouble)) throw error
      process.kill(clock.steady())
    })
  }

  /** Every process sweeps the lanes without an owner, although one would do. */
  #sweep(store: Store, { clock }: SimProcess): void {
    const sweep = new RestingSweep(store, 1_000_000)
    const job = new Job(
      clock,
      () => sweep.step(),
      (error) => {
        if (!(error instanceof StoreTrouble)) throw error
      },
    )
    const ask = () => {
      job.request()
      clock.after(sweepMs, ask)
    }
    clock.after(sweepMs, ask)
  }

  /** The store, with what the checks must know of it written down. */
  #witnessed(store: Store, worker: WorkerFact): Store {
    const { clock, history } = this
    const witness: Pick<Store, 'settle' | 'endResting' | 'join' | 'renew'> = {
      endResting: async (ends) => {
        const ended = await store.endResting(ends)
        for (const { endpoint } of ended) history.untried.push({ endpoint, at: clock.steady() })
        return ended
      },
      settle: async (id, settlements, effects) => {
        const result = await store.settle(id, settlements, effects)
        const recordedAt = clock.steady()
        if (result === 'settled' && !this.#leases.has(id)) history.unfenced.push(worker.name)
        for (const { endpoint } of result === 'settled' ? effects.holds : []) {
          history.holds.push({ endpoint, worker, recordedAt })
        }
        for (const { endpoint, attempt } of result === 'settled' ? settlements : []) {
          if (attempt === null) history.untried.push({ endpoint, at: recordedAt })
        }
        if (result === 'settled') this.#noteCircuits(effects.notices ?? [], worker)
        return result
      },
      join: async (input) => {
        const id = await store.join(input)
        this.#leases.set(id, { until: clock.now() + input.leaseMs, worker, known: false })
        this.#buryLapsed()
        return id
      },
      renew: async (id, ms) => {
        const renewal = await store.renew(id, ms)
        const lease = this.#leases.get(id)
        if (lease && renewal.alive) Object.assign(lease, { until: clock.now() + ms, known: true })
        this.#buryLapsed()
        return renewal
      },
    }
    const all: Partial<Store> = this.#regional ? { ...witness, ...this.#touching(store, worker) } : witness
    return new Proxy(store, { get: (target, name) => Reflect.get(name in all ? all : target, name) })
  }

  /** Writes down which lanes and payloads a worker claims and reads. */
  #touching(store: Store, worker: WorkerFact): Pick<Store, 'claim' | 'readDue' | 'loadMessages'> {
    const { clock, history } = this
    const touch = (kind: 'claimed' | 'read', endpoint: number) =>
      history.touches.push({ at: clock.steady(), worker, kind, endpoint })
    return {
      claim: async (id, limit, ownedToo, ...rest) => {
        const claim = await store.claim(id, limit, ownedToo, ...rest)
        // With the others it answers lanes that the worker owns since before, of which some were moved since.
        if (!ownedToo) for (const { endpoint } of claim.lanes) touch('claimed', endpoint.key)
        return claim
      },
      readDue: (reads) => {
        for (const { endpoint } of reads) touch('read', endpoint)
        return store.readDue(reads)
      },
      loadMessages: (messages) => {
        const at = clock.steady()
        history.touches.push(...messages.map((message) => ({ at, worker, kind: 'loaded' as const, message })))
        return store.loadMessages(messages)
      },
    }
  }

  #noteCircuits(notices: readonly Notice[], worker: WorkerFact): void {
    for (const notice of notices) {
      const { type, endpoint, data } = notice
      const when = this.#noticeTimes.get(notice)
      if (!when || when.recorded || !type.startsWith('endpoint.circuit.')) continue
      when.recorded = true
      const { notBefore, notAfter } = when
      this.history.circuits.push({
        notBefore,
        notAfter,
        endpoint,
        worker,
        kind: type.slice('endpoint.circuit.'.length) as CircuitFact['kind'],
        recordedAt: this.clock.steady(),
        openForMs: (data.openForMs as number | null | undefined) ?? null,
        reason: String(data.reason),
      })
    }
  }

  #buryLapsed(): void {
    for (const [id, lease] of this.#leases) {
      if (lease.until >= this.clock.now()) continue
      // A membership that was never renewed is one whose worker never heard that it had joined.
      if (lease.known) lease.worker.losses.push({ at: this.clock.steady(), knownAt: Number.POSITIVE_INFINITY })
      this.#leases.delete(id)
    }
  }

  #operate(): Operator {
    const { clock, history } = this
    const chances = { operator: this.#operator, order: this.#order, ailing: this.#ailing, forms: this.#forms }
    const operator = new Operator({ store: this.#store, clock, history, chances })
    if (chances.operator.chance(0.4)) operator.operateFor(troubledMs)
    operator.directFor(troubledMs)
    if (chances.ailing.chance(0.4)) operator.orderFor(troubledMs)
    if (chances.forms.chance(0.3)) operator.reformFor(troubledMs)
    return operator
  }

  /** A caller asks why deliveries wait, until the world has been well for a while. */
  #observe(): Observer {
    const { clock, history } = this
    const store = this.#plant.observer?.(this.#store) ?? this.#store
    const observer = new Observer({ store, clock, history, chance: this.#observer })
    observer.watch()
    clock.after(troubledMs + 120 * second, () => observer.stop())
    return observer
  }

  #publishFor(durationMs: number): void {
    const { clock, chance } = this
    const pace = chance.pick([100, 300, 1000])
    const next = () => {
      if (clock.steady() >= durationMs) return
      void this.#publishOne()
      clock.after(chance.between(1, pace * 2), next)
    }
    next()
  }

  /** One publish by a process of its own, which may die on the way. */
  async #publishOne(): Promise<void> {
    const { clock, chance, history } = this
    const process = new SimProcess('publisher', clock)
    const store = faultyStore(this.#plant.publisher?.(this.#store) ?? this.#store, process, clock, chance, this.faults)
    const admission = new Admission(roomy, this.#ledger)
    const app = chance.pick(history.endpoints).app
    const subject = this.#wishes.pick(['a', 'b'])
    const orderingKey = this.#plainly ? null : this.#order.pick([null, 'one', 'one', 'two', 'three'])
    const body = `{"n": ${++this.#bodies}.0, "subject": "${subject}"}`
    const fact: PublishFact = {
      body,
      endpoints: [],
      state: 'unknown',
      key: 0,
      kind: '',
      delayed: false,
      ...unordered,
      ...unbounded,
    }
    try {
      const subscriptions = await store.subscriptions(app)
      if (!subscriptions) return
      const eventType = chance.pick(['video.up', 'video.down', 'audio.up'])
      const endpoints = new Matcher(subscriptions.list).match(eventType, null)
      Object.assign(fact, { endpoints })
      history.published.push(fact)
      const common = { app, version: subscriptions.version, eventType, eventId: null, channels: null, endpoints }
      const delayMs = chance.chance(0.1) ? chance.between(1, 5000) : 0
      const publication = { ...common, body: Buffer.from(body), contentType: 'application/json', delayMs, orderingKey }
      Object.assign(fact, { kind: `${eventType} ${subject}`, delayed: delayMs > 0, orderingKey })
      fact.asked = ++this.#moments
      const expiresInMs = this.#bounds.chance(0.2) ? this.#bounds.between(100, 15_000) : null
      Object.assign(fact, { publishedFrom: clock.steady(), delayMs, expiresInMs: expiresInMs && expiresInMs + delayMs })
      const { treatments, bounds } = appSubscriptions(app, subscriptions, 0)
      const treated =
        treatments && allAtOnce(treat(treatments, publication, new Forms(publication.body, new Work()), endpoints))
      const wanted = { ...publication, ...treated, expiresInMs: fact.expiresInMs }
      const [admitted = wanted] = admission.admit([wanted], 0, bounds)
      const [result] = await store.publish([admitted])
      Object.assign(fact, { answered: ++this.#moments, publishedUntil: clock.steady() })
      if (result?.state === 'accepted') Object.assign(fact, { state: 'accepted', key: result.key })
      else fact.state = 'refused'
    } catch (error) {
      if (error instanceof AppError && error.code === 'overloaded') fact.state = 'refused'
      else if (!(error instanceof StoreTrouble)) throw error
    }
  }

  #troubleFor(durationMs: number): void {
    const { clock, chance, history } = this
    const kinds = chance.pick([['kill'], ['kill', 'stall'], ['stall'], ['jump'], ['kill', 'stall', 'jump'], []])
    const next = () => {
      if (clock.steady() >= durationMs || kinds.length === 0) return
      const kind = chance.pick(kinds)
      const process = chance.pick([...this.#workers.keys()])
      if (kind === 'kill') process?.kill(clock.steady())
      if (kind === 'stall') history.attentive = false
      if (kind === 'stall') history.stalled = true
      if (kind === 'stall') this.#stalled = true
      if (kind === 'stall') {
        const until = clock.steady() + chance.between(100, 3 * leaseMs)
        history.disturbances.push({ from: clock.steady(), until: until + 2 * leaseMs })
        process?.stall(until)
      }
      if (kind === 'jump') {
        // Far longer than any lease, wait and window. After a jump back, the world runs as long again.
        const byMs = chance.between(-600, 600) * second
        history.jumps.push(clock.steady())
        clock.jump(byMs)
        // The store moves leases along with its clock.
        for (const lease of this.#leases.values()) lease.until += byMs
      }
      clock.after(chance.between(500, 15_000), next)
    }
    clock.after(chance.between(500, 15_000), next)
  }

  /** Faults end, receivers recover, and an operator enables what answered 410. */
  async #heal(): Promise<void> {
    this.#healed = true
    this.faults.on = false
    // Workers start again, and serve all regions together.
    if (this.#regional) for (const process of [...this.#workers.keys()]) process.kill(this.clock.steady())
    // An attempt begun before may still bring a 410, late by as long as its worker stood still.
    await this.clock.advance(5 * second + 3 * leaseMs)
    this.history.healedAt = this.clock.steady()
    // Until then, a lane may have waited for a worker of its region.
    if (this.#regional) this.history.disturbances.push({ from: 0, until: this.history.healedAt })
    for (const { app, key } of this.history.endpoints) await this.#store.updateEndpoint(app, key, { disabled: false })
  }

  /** Goes on until nothing waits; a delivery that still waits after a day of virtual time never ends. */
  async #runDry(operator: Operator): Promise<void> {
    const { patienceMs = 26 * 3600 * second } = this.#plant
    for (let stepMs = second, passed = 0; passed < patienceMs; passed += stepMs, stepMs *= 1.3) {
      const { pending } = await this.#store.counts()
      if (pending === 0) return
      await operator.directBlocked('skip')
      await this.clock.advance(stepMs)
    }
  }
}

/** The worker finds out that it was declared dead. */
function learn(worker: WorkerFact, now: number): void {
  for (const loss of worker.losses) loss.knownAt = Math.min(loss.knownAt, now)
}
