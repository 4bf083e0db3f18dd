import type { Clock, Random, SteadyMs } from '../domain/clock.ts'
import { type Class, classes, fresh } from '../domain/delivery.ts'
import type { RandomText } from '../domain/ids.ts'
import type { SchedulerLimits } from '../domain/lane.ts'
import { Scheduler } from '../domain/scheduler.ts'
import type { HealthDefaults, ServerDefaults } from '../features/endpoints/rules.ts'
import type { Regions } from '../features/regions/rules.ts'
import type { Sender } from '../sender/send.ts'
import type { RowName, Store, StoredMessage, WorkerReport } from '../store/store.ts'
import { AppShares } from './app-shares.ts'
import type { AttemptWatch } from './attempt-watch.ts'
import { Bodies } from './bodies.ts'
import type { Delivery } from './delivery.ts'
import { LaneRegistry } from './lane-registry.ts'
import { Loop } from './loop.ts'
import { Membership } from './membership.ts'
import { NamedReader } from './named-reader.ts'
import { Ownership } from './ownership.ts'
import { Pump, type PumpDeps } from './pump.ts'
import { Reader } from './reader.ts'
import { SettleQueue, Settling } from './settling.ts'
import { SlotWatch } from './slot-watch.ts'
import { Snapshots } from './snapshots.ts'
import { diedText, lapsedText, takenOverText } from './worker-ends.ts'
import { WorkerJobs } from './worker-jobs.ts'

const housekeepingMs = 250
const bodyCacheBytes = 16 * 1024 * 1024
/** A worker that is stopping looks this often which of its lanes have no attempt any more. */
const handOnMs = 20
/** How long a shutdown tries to record results. Without a store it would wait for ever; others send them again. */
const recordLimitMs = 5000

/**
 * Delivers the store's pending deliveries, as one of any number of workers. All that it owns can be lost at any moment
 * without losing a delivery: rows stay in the store until their end is recorded.
 *
 * `Membership` holds the worker's lease. While it does, `Ownership` claims lanes into the `LaneRegistry`, and `Reader` keeps
 * the front of their queues in memory; `NamedReader` adds rows that other processes store. `Loop` says when `Pump` may send the deliveries that the scheduler picks; `Pump` is the
 * life of a delivery. `Settling` records the verdicts through the `SettleQueue`, and brings the lanes in line. `WorkerJobs`
 * run in between, and `Snapshots` answer how a lane stands.
 */
export class Engine {
  readonly #deps: EngineDeps
  readonly #scheduler: Scheduler<Delivery>
  readonly #membership: Membership
  readonly #loop: Loop
  readonly #queue: SettleQueue
  readonly #reader: Reader
  readonly #namedReader: NamedReader
  readonly #settling: Settling
  readonly #appShares: AppShares
  readonly #registry: LaneRegistry
  readonly #bodies: Bodies
  readonly #pump: Pump
  readonly #ownership: Ownership
  readonly #jobs: WorkerJobs
  readonly #snapshots: Snapshots
  readonly #slotWatch: SlotWatch
  #state: 'new' | 'running' | 'stopping' | 'stopped' = 'new'
  /** When messages were last expunged, as far as this worker knows. */
  #expungedAt: SteadyMs = Number.NEGATIVE_INFINITY

  constructor(deps: EngineDeps) {
    this.#deps = deps
    const { store, sender, clock, random, randomText, leaseMs, description, waitingLimit, serverDefaults } = deps
    const { regions = null } = deps
    const healthDefaults = deps.health
    const onTrouble = (error: unknown) => this.#trouble(error)
    const scheduler = new Scheduler<Delivery>(deps.limits)
    const bodies = new Bodies(store, bodyCacheBytes)
    const membership = new Membership({
      ...{ store, clock, leaseMs, description, regions, onTrouble },
      report: () =>
        deps.process && {
          ...deps.process,
          inFlight: scheduler.inFlight,
          inFlightLimit: deps.limits.inFlight,
          waits: this.#slotWatch.waits,
          clockAt: Math.round(clock.now()),
        },
      onRenewed: (counted) => {
        this.#appShares.workersChanged(membership.workers)
        if (counted) this.#registry.shareAmongWorkers()
      },
      onDied: (workers) => {
        for (const each of workers) deps.log?.(diedText(each, 'its lease expired'))
      },
      onLapsed: () => {
        const given = scheduler.inFlight
        if (given > 0) deps.log?.(lapsedText(given))
        this.#pump.abortAll()
      },
      onLost: () => this.#lost(),
    })
    const loop = new Loop({ clock, scheduler, membership })
    const queue = new SettleQueue({ store, clock, membership, loop, onTrouble })
    const reader = new Reader({
      ...{ store, clock, scheduler, loop, onTrouble },
      onUnwanted: (delivery, verdict) => this.#settling.waitingEnds(delivery, verdict),
    })
    const settling = new Settling({ clock, scheduler, queue, reader, loop })
    const appShares = new AppShares({ store, clock, scheduler, membership, loop, onTrouble })
    const registry = new LaneRegistry({
      ...{ store, clock, scheduler, sender, membership, appShares, reader, settling, loop, onTrouble },
      ...{ regions, serverDefaults, healthDefaults },
    })
    this.#slotWatch = new SlotWatch({ clock, scheduler, registry, loop })
    this.#slotWatch.start()
    const pump = new Pump({
      ...{ clock, random, randomText, scheduler, bodies, membership, reader, settling, loop, onTrouble },
      leastRetryWaitMs: deps.limits.leastRetryWaitMs,
      watch: deps.watch,
    })
    this.#scheduler = scheduler
    this.#membership = membership
    this.#loop = loop
    this.#queue = queue
    this.#reader = reader
    this.#namedReader = new NamedReader({ store, clock, bodies, scheduler, loop, onTrouble })
    this.#settling = settling
    this.#appShares = appShares
    this.#registry = registry
    this.#bodies = bodies
    this.#pump = pump
    this.#ownership = new Ownership({
      ...{ store, clock, scheduler, membership, registry, reader, bodies, regions, onTrouble },
      onUnclean: (lanes) => void this.#sayTakenOver(lanes),
    })
    this.#jobs = new WorkerJobs({ store, clock, regions, registry, settling, waitingLimit, onTrouble })
    this.#snapshots = new Snapshots({ store, clock, scheduler, membership, registry, pump, queue, loop, onTrouble })
  }

  /** Figures of this worker. */
  get figures(): WorkerFigures {
    return {
      inFlight: this.#scheduler.inFlight,
      inFlightLimit: this.#deps.limits.inFlight,
      waitingForSlot: this.#slotWatch.waits.lanes,
      lanes: this.#registry.size,
      unsettled: this.#queue.size,
      leaseAgeMs: this.#deps.clock.steady() - this.#membership.extendedAt,
    }
  }

  /** Joins the workers and begins to deliver. */
  async start(): Promise<void> {
    if (this.#state !== 'new') throw new Error('an engine starts once')
    this.#state = 'running'
    this.#loop.start({ pump: this.#pump, reader: this.#reader, queue: this.#queue, ownership: this.#ownership })
    await this.#membership.join()
    this.#deps.store.watch({
      rows: (endpoints, itsClass) => this.#rowsAdded(endpoints, itsClass),
      stored: (messages, begunAt) => this.#stored(messages, begunAt),
      named: (names) => this.#rowsNamed(names),
      lanes: (woken) => this.#ownership.lanesDue(woken),
      settings: (endpoints) => void this.#registry.refresh(endpoints),
      expunged: (messages) => {
        this.#expungedAt = this.#deps.clock.steady()
        this.#bodies.forget(messages)
        this.#pump.forgetAnswers(messages)
      },
      fanOuts: () => this.#jobs.expand(),
      tasks: () => this.#jobs.lookForTasks(),
      inbox: () => this.#deps.onInbox?.(),
      workers: () => this.#membership.renewNow(),
      workersDied: (workers) => {
        for (const each of workers) this.#deps.log?.(diedText(each, 'its connection to the database ended'))
      },
      sessionLost: () => this.#membership.sessionLost(),
      sessionHeld: () => this.#membership.sessionHeld(),
      asked: (endpoints) => {
        if (this.#state !== 'stopped') this.#snapshots.request(endpoints)
      },
    })
    this.#loop.every(housekeepingMs, () => this.#housekeep())
    this.#jobs.start(this.#loop)
    this.#appShares.start()
    // A worker often starts because another died, and that one may have been publishing.
    void this.#ownership.reconcile()
    this.#ownership.claimSoon()
  }

  /**
   * Stops starting attempts, and hands each lane on as soon as its own attempts have ended and are recorded. Attempts under
   * way after the limit are given up. Nothing is lost; only an attempt that was given up may reach its receiver twice.
   */
  async stop(limitMs: number): Promise<void> {
    if (this.#state !== 'running') return
    this.#state = 'stopping'
    this.#startNothing()
    void this.#appShares.giveUp()
    await this.#handLanesOn(limitMs)
    const cancel = this.#deps.clock.after(recordLimitMs, () => this.#queue.drop())
    await this.#queue.drained()
    cancel()
    await this.#jobs.releaseTask().catch((error) => this.#deps.onTrouble(error))
    await this.#ownership.releaseAll()
    await this.#membership.leave()
    this.#state = 'stopped'
  }

  /** Lets go of everything without telling the store, as a crash would. For tests. */
  crash(): void {
    this.#state = 'stopped'
    this.#membership.stop()
    this.#startNothing()
  }

  /**
   * Whether nothing can be sent within this time, as far as is known. A publish by another part of this process `since` then
   * is looked for first.
   */
  isIdle(withinMs: number, since: SteadyMs = Number.NEGATIVE_INFINITY): boolean {
    const now = this.#deps.clock.steady()
    if (this.#state !== 'running' || this.#loop.standstill(now) === 'store' || this.#jobs.busy) return false
    return this.#ownership.isIdle(withinMs, since, this.#jobs.endedAt) && this.#jobs.nextAt > now + withinMs
  }

  /** Whether a delivery could start within this time, but for the end of the run. */
  lacksTime(withinMs: number): boolean {
    const now = this.#deps.clock.steady()
    let lacks = false
    this.#registry.each((owned) => {
      lacks ||= owned.lacksTime(now + withinMs, now)
    })
    return lacks
  }

  #startNothing(): void {
    this.#loop.stop()
    this.#ownership.stop()
    this.#registry.stop()
    this.#jobs.stop()
  }

  /**
   * Resolves when no attempt and no read is under way. Meanwhile the lanes that have none go to other workers, which share
   * them among each other from the start: a lane waits for its own attempts, not for the slowest of this worker.
   */
  async #handLanesOn(limitMs: number): Promise<void> {
    const { clock } = this.#deps
    const cancel = clock.after(limitMs, () => this.#pump.stop())
    // Beside the loop: a store that does not answer holds up neither the attempts nor the limit.
    let isReleasing = true
    const release = async () => {
      isReleasing = true
      await this.#ownership.releaseAll()
      isReleasing = false
    }
    void this.#membership.startLeaving().then(release)
    while (!this.#isQuiet()) {
      await new Promise<void>((resolve) => void clock.after(handOnMs, resolve))
      if (!isReleasing) void release()
    }
    cancel()
  }

  #isQuiet(): boolean {
    let reading = false
    this.#registry.each((owned) => {
      reading ||= owned.rows.isReading
    })
    return !reading && this.#scheduler.inFlight === 0
  }

  /** This process has stored messages: lanes that were read to their end take the fast path. Answers the other endpoints. */
  #stored(messages: readonly StoredMessage[], begunAt: SteadyMs): readonly number[] {
    const unread = new Set<number>()
    // A message that was expunged meanwhile must be looked for in the store.
    const isSure = this.#expungedAt < begunAt
    let acceptedAny = false
    for (const message of messages) {
      let accepted = false
      for (const endpoint of message.publication.endpoints) {
        const owned = this.#registry.find(endpoint)
        if (isSure && owned && this.#reader.acceptStored(owned, message, begunAt)) accepted = true
        else unread.add(endpoint)
      }
      if (accepted) this.#bodies.expect(message)
      acceptedAny ||= accepted
    }
    // The publisher is answered first, and no turn is waited for: under load that made deliveries four times as late.
    if (acceptedAny) this.#deps.clock.afterPromises(() => this.#loop.turn())
    return [...unread]
  }

  /** A process published or replayed. */
  #rowsAdded(endpoints: readonly number[] | undefined, itsClass: Class | undefined): void {
    const now = this.#deps.clock.steady()
    const added = itsClass === undefined ? classes : [itsClass]
    this.#registry.rowsAdded(endpoints)
    this.#registry.each((owned) => {
      owned.rowsAdded(added, now)
      for (const c of added) this.#reader.request(owned, c)
    }, endpoints)
    this.#reader.readNow()
  }

  /** Another process stored these rows. */
  #rowsNamed(names: readonly RowName[]): void {
    const unread = new Set<number>()
    this.#registry.rowsAdded(names.map(({ endpoint }) => endpoint))
    for (const name of names) {
      const owned = this.#registry.find(name.endpoint)
      if (owned && !this.#namedReader.request(owned, name)) unread.add(name.endpoint)
    }
    if (unread.size > 0) this.#rowsAdded([...unread], fresh)
  }

  #housekeep(): void {
    void this.#registry.refreshOutdated()
    void this.#ownership.releaseResting()
    const now = this.#deps.clock.steady()
    this.#registry.each((owned) => {
      owned.rows.recheckIfOld(now)
      owned.rest(now)
      for (const delivery of owned.surplusInOrder()) {
        this.#settling.waitingEnds(delivery, { state: 'dead', reason: 'overflow' })
      }
      // A read that failed because of the store is requested again here.
      this.#reader.requestAll(owned)
    })
    this.#loop.wake()
  }

  #lost(): void {
    this.#deps.log?.('the lease of this worker expired; releasing its lanes and joining again')
    this.#pump.abortAll()
    this.#queue.drop()
    this.#ownership.lose()
    this.#appShares.lose()
  }

  async #sayTakenOver(lanes: number): Promise<void> {
    const { store, clock, leaseMs, log } = this.#deps
    try {
      const text = await takenOverText(store, lanes, clock.now(), leaseMs)
      if (text !== undefined) log?.(text)
    } catch (error) {
      this.#trouble(error)
    }
  }

  #trouble(error: unknown): void {
    this.#loop.pause()
    this.#deps.onTrouble(error)
  }
}

/** Figures of a worker. */
export interface WorkerFigures {
  /** Attempts under way, and how many may be. */
  readonly inFlight: number
  readonly inFlightLimit: number
  /** Lanes that it owns. */
  /** Lanes that could send and wait for a slot. */
  readonly waitingForSlot: number
  readonly lanes: number
  /** Verdicts that are not recorded yet. */
  readonly unsettled: number
  /** How long ago it last extended its lease. */
  readonly leaseAgeMs: number
}

export interface EngineDeps {
  readonly store: Store
  readonly sender: Sender
  readonly clock: Clock
  readonly random: Random
  readonly randomText: RandomText
  readonly limits: SchedulerLimits & Pick<PumpDeps, 'leastRetryWaitMs'>
  readonly leaseMs: number
  /** The regions whose lanes it may own; all by default. */
  readonly regions?: Regions
  readonly serverDefaults: ServerDefaults
  /** How many deliveries may wait at an endpoint that sets no limit of its own. */
  readonly waitingLimit: number
  readonly health: HealthDefaults
  /** Shown to operators: names this process. */
  readonly description: string
  /** Shown to operators in the list of workers. */
  readonly process?: Omit<WorkerReport, 'inFlight' | 'inFlightLimit' | 'clockAt'>
  readonly log?: (sentence: string) => void
  /** Without it, attempts are neither logged nor traced. */
  readonly watch?: AttemptWatch | undefined
  /** There may be rows in the inbox. */
  onInbox?(): void
  /** Trouble with the store, or a bug; the engine goes on by itself. */
  onTrouble(error: unknown): void
}
