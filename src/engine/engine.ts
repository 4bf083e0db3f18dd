import type { Clock, Random, SteadyMs } from '../domain/clock.ts'
import { type Class, classes, timed as timedClass } from '../domain/delivery.ts'
import type { HealthDefaults } from '../domain/health-facts.ts'
import type { RandomText } from '../domain/ids.ts'
import { Scheduler, type SchedulerLimits } from '../domain/scheduler.ts'
import type { Sender } from '../sender/send.ts'
import type { Store, StoredMessage } from '../store/store.ts'
import { Answering } from './answering.ts'
import { Bodies } from './bodies.ts'
import { Bookkeeping } from './bookkeeping.ts'
import { Chores } from './chores.ts'
import { HealthKeeper } from './health-keeper.ts'
import { Idleness } from './idleness.ts'
import { LaneBook } from './lane-book.ts'
import { Membership } from './membership.ts'
import { NoticeWishes } from './notice-wishes.ts'
import { doomedInLine } from './ordered-rows.ts'
import { type Delivery, isReading, lookAgain, type OwnedLane, reopen } from './owned-lane.ts'
import { Ownership } from './ownership.ts'
import { Pump, type PumpParts } from './pump.ts'
import { Reader } from './reader.ts'
import { Recorder } from './recorder.ts'
import { Rhythm } from './rhythm.ts'
import { Settler } from './settler.ts'
import { TimedLanes } from './timed-lanes.ts'
import { Trimmer } from './trimmer.ts'
import { Turns } from './turns.ts'

const housekeepingMs = 250
const bodyCacheBytes = 16 * 1024 * 1024
/** How long a shutdown tries to record what has ended. Without a store it would wait for ever; others send it again. */
const recordLimitMs = 5000

/**
 * Delivers what the store holds, as one of any number of workers. Everything it owns can be lost at any moment without
 * losing a delivery: rows stay in the store until their end is recorded.
 *
 * Ownership claims lanes while membership holds the lease, and the book keeps them as their endpoints want them. The
 * reader keeps the head of their queues in memory. Turns says when the pump may send what the scheduler picks; the health
 * keeper hears how each attempt ended. The recorder says what is to be recorded, the settler records it in batches, and
 * bookkeeping then brings memory in line. Chores are done in between.
 */
export class Engine {
  readonly #parts: EngineParts
  readonly #scheduler: Scheduler<Delivery>
  readonly #membership: Membership
  readonly #book: LaneBook
  readonly #ownership: Ownership
  readonly #reader: Reader
  readonly #bodies: Bodies
  readonly #turns: Turns
  readonly #pump: Pump
  readonly #recorder: Recorder
  readonly #settler: Settler
  readonly #bookkeeping: Bookkeeping
  readonly #answering: Answering
  readonly #chores: Chores
  readonly #idleness: Idleness
  readonly #rhythm: Rhythm
  #state: 'new' | 'running' | 'stopping' | 'stopped' = 'new'
  #onQuiet: (() => void) | undefined
  /** When messages were last expunged, as far as is known. */
  #expungedAt: SteadyMs = Number.NEGATIVE_INFINITY

  constructor(parts: EngineParts) {
    this.#parts = parts
    const { store, sender, clock, random, randomText, leaseMs, description } = parts
    const onTrouble = (error: unknown) => this.#trouble(error)
    const again = () => this.#turns.again()
    const owns = (owned: OwnedLane) => this.#book.owns(owned)
    const timed = new TimedLanes()
    const wishes = new NoticeWishes(store)
    const scheduler = new Scheduler<Delivery>(parts.limits)
    const bodies = new Bodies(store, bodyCacheBytes)
    const membership = new Membership({
      ...{ store, clock, leaseMs, description, onTrouble },
      onRenewed: () => {
        this.#book.shareRates()
        this.#book.balance()
      },
      onLapsed: () => this.#pump.abortAll(),
      onLost: () => this.#lost(),
    })
    const settler = new Settler({
      ...{ store, clock, onBug: onTrouble },
      worker: () => membership.worker,
      onSettled: again,
      onFenced: () => membership.lose(),
    })
    const recorder = new Recorder({
      ...{ clock, randomText, settler, wishes },
      onRecorded: (delivery, verdict) => this.#bookkeeping.recorded(delivery, verdict),
    })
    const reader = new Reader({
      ...{ store, clock, scheduler, owns, onTrouble },
      onLeftBehind: (delivery) => recorder.requeue(delivery),
      onUnwanted: (delivery, reason) => recorder.endWaiting(delivery, reason),
      onTimed: (owned, at) => {
        if (timed.expect(owned, at)) again()
      },
      onRead: () => this.#turns.startSome(),
    })
    const health = new HealthKeeper({ random, scheduler, settler, defaults: parts.health })
    const pump = new Pump({
      ...{ clock, random, scheduler, bodies, health, recorder, again, onTrouble },
      leastRetryWaitMs: parts.limits.leastRetryWaitMs,
      maySend: () => membership.holdsLease(clock.steady()),
      onTaken: (owned, itsClass) => reader.want(owned, itsClass),
      onHandedBack: (delivery) => this.#bookkeeping.handedBack(delivery),
    })
    const book = new LaneBook({
      ...{ store, clock, scheduler, sender, membership, onTrouble },
      defaultTimeoutMs: parts.defaultTimeoutMs,
      healthDefaults: parts.health,
      onOwned: (owned) => {
        health.taken(owned, clock.steady())
        reader.wantAll(owned)
      },
      onApplied: (owned, before, now) => {
        health.changed(owned, before, now)
        // An operator's order is told as a change of settings.
        if (owned.lane.order) reader.wantAll(owned)
      },
      onChanged: again,
    })
    const trimmer = new Trimmer({
      ...{ store, clock, owns, waitingLimit: parts.waitingLimit },
      each: (visit) => book.each(visit),
      end: (delivery, reason, recorded) => recorder.endUntried(delivery, reason, recorded),
    })
    this.#scheduler = scheduler
    this.#membership = membership
    this.#settler = settler
    this.#recorder = recorder
    this.#reader = reader
    this.#bodies = bodies
    this.#pump = pump
    this.#book = book
    this.#ownership = new Ownership({ store, clock, membership, book, onTrouble })
    this.#bookkeeping = new Bookkeeping({ clock, scheduler, timed, reader, again })
    this.#turns = new Turns({
      ...{ clock, scheduler, membership, settler, timed, pump },
      onTurn: () => this.#onQuiet && this.#isQuiet() && this.#onQuiet(),
      onDue: (owned) => this.#timedRowDue(owned),
    })
    this.#answering = new Answering({
      ...{ store, clock, scheduler, settler, onBug: onTrouble },
      worker: () => membership.worker,
      eachLane: (visit, endpoints) => book.each(visit, endpoints),
      sending: () => pump.sending(),
      standstill: (now) => this.#turns.standstill(now),
    })
    this.#rhythm = new Rhythm(clock)
    this.#chores = new Chores({ store, clock, trimmer, wishes, onTrouble })
    this.#idleness = new Idleness({ clock, chores: this.#chores, ownership: this.#ownership, book })
  }

  /** How many attempts ended how, since the start. */
  get tally(): Readonly<Record<'delivered' | 'waiting' | 'dead', number>> {
    return this.#bookkeeping.tally
  }

  /** Joins the workers and begins to deliver. */
  async start(): Promise<void> {
    if (this.#state !== 'new') throw new Error('an engine starts once')
    this.#state = 'running'
    this.#turns.start()
    await this.#membership.join()
    this.#parts.store.watch({
      rows: (endpoints, itsClass) => this.#rowsAdded(endpoints, itsClass),
      stored: (messages, begunAt) => this.#stored(messages, begunAt),
      lanes: () => this.#ownership.claimSoon(),
      settings: (endpoints) => void this.#book.refresh(endpoints),
      expunged: (messages) => {
        this.#expungedAt = this.#parts.clock.steady()
        this.#bodies.forget(messages)
      },
      fanOuts: () => this.#chores.expand(),
      asked: (endpoints) => {
        if (this.#state !== 'stopped') this.#answering.ask(endpoints)
      },
    })
    this.#rhythm.every(housekeepingMs, () => this.#housekeep())
    this.#chores.start(this.#rhythm)
    // A worker often starts because another died, and that one may have been publishing.
    void this.#ownership.reconcile()
    this.#ownership.claimSoon()
  }

  /**
   * Stops starting attempts, waits for those under way up to the limit, gives up the rest, records everything and hands
   * every lane back. Nothing is lost; only an attempt that had to be given up may be seen twice by its receiver.
   */
  async stop(limitMs: number): Promise<void> {
    if (this.#state !== 'running') return
    this.#state = 'stopping'
    this.#startNothing()
    if (!this.#isQuiet()) await this.#quiet(limitMs)
    const cancel = this.#parts.clock.after(recordLimitMs, () => this.#settler.drop())
    await this.#settler.drained()
    cancel()
    await this.#chores.letGo().catch((error) => this.#parts.onTrouble(error))
    await this.#ownership.releaseAll()
    await this.#membership.leave()
    this.#state = 'stopped'
  }

  /** Lets go of everything without a word to the store, as a crash would. For tests. */
  crash(): void {
    this.#state = 'stopped'
    this.#membership.stop()
    this.#startNothing()
  }

  /**
   * Whether nothing can be sent within this time, as far as is known. What another part of this process published `since`
   * then is looked for first.
   */
  isIdle(withinMs: number, since: SteadyMs = Number.NEGATIVE_INFINITY): boolean {
    const isPaused = this.#turns.standstill(this.#parts.clock.steady()) === 'store'
    return this.#state === 'running' && !isPaused && this.#idleness.isIdle(withinMs, since)
  }

  #startNothing(): void {
    this.#rhythm.stop()
    this.#turns.stop()
    this.#ownership.close()
    this.#book.close()
    this.#chores.stop()
  }

  /** Resolves when nothing is under way any more; what still is after the limit is given up. */
  #quiet(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#parts.clock.after(limitMs, () => this.#pump.abortAll())
      this.#onQuiet = () => {
        cancel()
        resolve()
      }
    })
  }

  /** Nothing is on the wire and no read is under way. */
  #isQuiet(): boolean {
    let reading = false
    this.#book.each((owned) => {
      reading ||= isReading(owned)
    })
    return !reading && this.#scheduler.inFlight === 0
  }

  /** This process has stored messages: lanes that have caught up get them without reading. Answers which have not. */
  #stored(messages: readonly StoredMessage[], begunAt: SteadyMs): readonly number[] {
    const unread = new Set<number>()
    // What is read again is missing where it was expunged meanwhile.
    const isSure = this.#expungedAt < begunAt
    let takenAny = false
    for (const message of messages) {
      let taken = false
      for (const endpoint of message.publication.endpoints) {
        const owned = this.#book.find(endpoint)
        if (isSure && owned && this.#reader.takeStored(owned, message, begunAt)) taken = true
        else unread.add(endpoint)
      }
      if (taken) this.#bodies.expect(message)
      takenAny ||= taken
    }
    // Not now, in the hands of whoever publishes, who is to have an answer first.
    if (takenAny) queueMicrotask(() => this.#turns.startSome())
    return [...unread]
  }

  /** Somebody published, or queued again. */
  #rowsAdded(endpoints: readonly number[] | undefined, itsClass: Class | undefined): void {
    const now = this.#parts.clock.steady()
    const added = itsClass === undefined ? classes : [itsClass]
    this.#book.each((owned) => {
      owned.lastActiveAt = now
      for (const c of added) {
        reopen(owned, c)
        this.#reader.want(owned, c)
      }
    }, endpoints)
    this.#reader.readNow()
  }

  #timedRowDue(owned: OwnedLane): void {
    if (!this.#book.owns(owned)) return
    reopen(owned, timedClass)
    this.#reader.want(owned, timedClass)
  }

  #housekeep(): void {
    void this.#book.refreshOutdated()
    void this.#ownership.releaseResting()
    const now = this.#parts.clock.steady()
    this.#book.each((owned) => {
      lookAgain(owned, now)
      for (const delivery of doomedInLine(owned)) this.#recorder.endWaiting(delivery, 'overflow')
      // A read that failed for want of the store is asked for again here.
      this.#reader.wantAll(owned)
    })
    this.#turns.again()
  }

  #lost(): void {
    this.#parts.log?.('declared dead by another worker; dropping everything and joining anew')
    this.#pump.abortAll()
    this.#settler.drop()
    this.#ownership.lose()
  }

  #trouble(error: unknown): void {
    this.#turns.pause()
    this.#parts.onTrouble(error)
  }
}

export interface EngineParts {
  readonly store: Store
  readonly sender: Sender
  readonly clock: Clock
  readonly random: Random
  readonly randomText: RandomText
  readonly limits: SchedulerLimits & Pick<PumpParts, 'leastRetryWaitMs'>
  readonly leaseMs: number
  readonly defaultTimeoutMs: number
  /** How many deliveries may wait at an endpoint that says nothing of it. */
  readonly waitingLimit: number
  readonly health: HealthDefaults
  /** For people: which process this is. */
  readonly description: string
  readonly log?: (sentence: string) => void
  /** Trouble with the store, or a bug; the engine goes on by itself. */
  onTrouble(error: unknown): void
}
