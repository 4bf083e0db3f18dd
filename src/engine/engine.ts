import type { Clock, Random, SteadyMs } from '../domain/clock.ts'
import { type Class, classes, timed } from '../domain/delivery.ts'
import type { HealthDefaults } from '../domain/health-facts.ts'
import { Heap } from '../domain/heap.ts'
import type { RandomText } from '../domain/ids.ts'
import type { Verdict } from '../domain/judge.ts'
import { Scheduler } from '../domain/scheduler.ts'
import type { Standstill } from '../domain/snapshot.ts'
import type { Sender } from '../sender/send.ts'
import type { Store } from '../store/store.ts'
import { Answering } from './answering.ts'
import { Bodies } from './bodies.ts'
import { Chore } from './chore.ts'
import { HealthKeeper } from './health-keeper.ts'
import { LaneBook } from './lane-book.ts'
import { Membership } from './membership.ts'
import { NoticeWishes } from './notice-wishes.ts'
import { doomedInLine } from './ordered-rows.ts'
import { type Delivery, doubt, isReading, lookAgain, type OwnedLane, reopen } from './owned-lane.ts'
import { Pump } from './pump.ts'
import { Reader } from './reader.ts'
import { Settler } from './settler.ts'
import { standAgain, verdictRecorded } from './standing.ts'
import { TaskRunner } from './task-runner.ts'
import { Trimmer } from './trimmer.ts'

/** After trouble with the store, nothing is started for this long: each start would need the store again. */
const troublePauseMs = 100
const housekeepingMs = 250
/**
 * Started as soon as they are read. While one tenant's flood keeps the process busy, each turn of everything takes 10 to
 * 20 ms, and what another publishes would wait for two of them: it came 25 ms after it was accepted, and now 7 to 12.
 */
const startsAtOnce = 32
/** One that was asked for and has not come is asked for again. */
const reconcileAgainMs = 5000
/** How soon a message for very many endpoints that another process took in is expanded. */
const expandMs = 1000
const expandRows = 1000
/** How soon a task that was asked for begins. */
const tasksMs = 1000
/** Between two looks at lanes whose oldest give way when too many wait. */
const trimMs = 1000
/** How soon what a deleted endpoint left behind begins to be removed. */
const removeMs = 1000
/** How soon somebody who wants to hear of failing messages does. */
const wishesMs = 5000
const bodyCacheBytes = 16 * 1024 * 1024
/** Ended attempts that may wait for the store before nothing more is started. */
const unsettledLimit = 4096
/** How long a shutdown tries to record what has ended. Without a store it would wait for ever; others send it again. */
const recordLimitMs = 5000

/**
 * Delivers what the store holds, as one of any number of workers. It owns lanes, keeps the head of their queues in
 * memory, sends, judges, and records in batches. Everything it owns can be lost at any moment without losing a
 * delivery: rows stay in the store until their end is recorded.
 */
export class Engine {
  readonly #parts: EngineParts
  readonly #scheduler: Scheduler<Delivery>
  readonly #membership: Membership
  readonly #book: LaneBook
  readonly #reader: Reader
  readonly #settler: Settler
  readonly #bodies: Bodies
  readonly #pump: Pump
  readonly #answering: Answering
  readonly #expanding: Chore
  readonly #taskRunner: TaskRunner
  readonly #tasks: Chore
  readonly #removing: Chore
  readonly #wishes: NoticeWishes
  readonly #wishing: Chore
  readonly #trimming: Chore
  /** How many attempts ended how, since the start. */
  readonly tally: Record<'delivered' | 'waiting' | 'dead', number> = { delivered: 0, waiting: 0, dead: 0 }
  /** Owned lanes by the instant their next timed row is due. */
  readonly #timed = new Heap<OwnedLane>()
  #state: 'new' | 'running' | 'stopping' | 'stopped' = 'new'
  #reconcileAskedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #turnScheduled = false
  #pausedUntil: SteadyMs = Number.NEGATIVE_INFINITY
  #alarm: { at: SteadyMs; cancel: () => void } | undefined
  #cancels: (() => void)[] = []
  /** Tasks that this worker let rest, and is to go on with. */
  readonly #restingTasks = new Set<{ readonly until: SteadyMs; readonly cancel: () => void }>()
  #quiet: (() => void) | undefined

  constructor(parts: EngineParts) {
    const { store, clock, random, randomText } = parts
    this.#parts = parts
    this.#scheduler = new Scheduler(parts.limits)
    const scheduler = this.#scheduler
    const onTrouble = (error: unknown) => this.#trouble(error)
    this.#expanding = new Chore(clock, () => store.expand(expandRows), onTrouble)
    this.#removing = new Chore(clock, async () => (await store.sweepRemoved()).more, onTrouble)
    this.#taskRunner = new TaskRunner(store, (restMs) => this.#taskRests(restMs))
    this.#tasks = new Chore(clock, () => this.#taskRunner.step(), onTrouble)
    this.#membership = new Membership({
      store,
      clock,
      leaseMs: parts.leaseMs,
      description: parts.description,
      onRenewed: () => {
        this.#book.shareRates()
        this.#book.balance()
      },
      onLapsed: () => this.#pump.abortAll(),
      onLost: () => this.#lost(),
      onTrouble,
    })
    this.#settler = new Settler({
      store,
      clock,
      worker: () => this.#membership.worker,
      onSettled: () => this.#again(),
      onFenced: () => this.#membership.lose(),
      onBug: onTrouble,
    })
    this.#reader = new Reader({
      store,
      clock,
      scheduler,
      owns: (owned) => this.#book.owns(owned),
      onLeftBehind: (delivery) => this.#pump.requeue(delivery),
      onUnwanted: (delivery, reason) => this.#pump.endWaiting(delivery, reason),
      onTimed: (owned, at) => this.#expect(owned, at),
      onRead: () => this.#startSome(),
      onTrouble,
    })
    this.#bodies = new Bodies(store, bodyCacheBytes)
    const health = new HealthKeeper({ random, scheduler, settler: this.#settler, defaults: parts.health })
    this.#wishes = new NoticeWishes(store)
    this.#wishing = new Chore(clock, () => this.#wishes.lookUp().then(() => false), onTrouble)
    this.#pump = new Pump({
      clock,
      random,
      randomText,
      scheduler,
      bodies: this.#bodies,
      settler: this.#settler,
      health,
      wishes: this.#wishes,
      maySend: () => this.#membership.holdsLease(clock.steady()),
      again: () => this.#again(),
      onTaken: (owned, itsClass) => this.#reader.want(owned, itsClass),
      onRecorded: (delivery, verdict) => this.#recorded(delivery, verdict),
      onHandedBack: (delivery) => this.#handedBack(delivery),
      onTrouble,
    })
    const trimmer = new Trimmer({
      store,
      clock,
      waitingLimit: parts.waitingLimit,
      each: (visit) => this.#book.each(visit),
      owns: (owned) => this.#book.owns(owned),
      end: (delivery, reason, recorded) => this.#pump.endUntried(delivery, reason, recorded),
    })
    this.#trimming = new Chore(clock, () => trimmer.step(), onTrouble)
    this.#book = new LaneBook({
      store,
      clock,
      scheduler,
      sender: parts.sender,
      membership: this.#membership,
      defaultTimeoutMs: parts.defaultTimeoutMs,
      healthDefaults: parts.health,
      onOwned: (owned) => {
        health.taken(owned, clock.steady())
        this.#readAll(owned)
      },
      onApplied: (owned, before, now) => {
        health.changed(owned, before, now)
        // An operator's order is told as a change of settings.
        if (owned.lane.order) this.#readAll(owned)
      },
      onChanged: () => this.#again(),
      onTrouble,
    })
    this.#answering = new Answering({
      store,
      clock,
      scheduler,
      settler: this.#settler,
      worker: () => this.#membership.worker,
      eachLane: (visit, endpoints) => this.#book.each(visit, endpoints),
      sending: () => this.#pump.sending(),
      standstill: (now) => this.#standstill(now),
      onBug: onTrouble,
    })
  }

  /** Joins the workers and begins to deliver. */
  async start(): Promise<void> {
    if (this.#state !== 'new') throw new Error('an engine starts once')
    this.#state = 'running'
    await this.#membership.join()
    this.#parts.store.watch({
      rows: (endpoints, itsClass) => this.#rowsAdded(endpoints, itsClass),
      lanes: () => this.#book.claimSoon(),
      settings: (endpoints) => void this.#book.refresh(endpoints),
      expunged: (messages) => this.#bodies.forget(messages),
      fanOuts: () => this.#expanding.ask(),
      asked: (endpoints) => {
        if (this.#state !== 'stopped') this.#answering.ask(endpoints)
      },
    })
    this.#every(housekeepingMs, () => this.#housekeep())
    this.#every(trimMs, () => this.#trimming.ask())
    this.#every(expandMs, () => this.#expanding.ask())
    this.#every(tasksMs, () => this.#tasks.ask())
    this.#every(removeMs, () => this.#removing.ask())
    this.#every(wishesMs, () => this.#wishing.ask())
    this.#wishing.ask()
    this.#expanding.ask()
    this.#tasks.ask()
    // A worker often starts because another died, and that one may have been publishing.
    this.#book.reconcile()
    this.#book.claimSoon()
  }

  /**
   * Stops starting attempts, waits for those under way up to the limit, gives up the rest, records everything and hands
   * every lane back. Nothing is lost; only an attempt that had to be given up may be seen twice by its receiver.
   */
  async stop(limitMs: number): Promise<void> {
    if (this.#state !== 'running') return
    this.#state = 'stopping'
    for (const cancel of this.#cancels) cancel()
    this.#book.close()
    this.#stopChores()
    if (!this.#isQuiet()) {
      await new Promise<void>((resolve) => {
        const cancel = this.#parts.clock.after(limitMs, () => this.#pump.abortAll())
        this.#quiet = () => {
          cancel()
          resolve()
        }
      })
    }
    const cancel = this.#parts.clock.after(recordLimitMs, () => this.#settler.drop())
    await this.#settler.drained()
    cancel()
    await this.#taskRunner.letGo().catch((error) => this.#parts.onTrouble(error))
    await this.#book.releaseAll()
    await this.#membership.leave()
    this.#state = 'stopped'
    this.#alarm?.cancel()
  }

  /**
   * Whether nothing can be sent within this time, as far as is known: nothing is under way, due or about to be. Asked, it
   * sees to it that it comes to know: it looks for lost wake-ups once, and for lanes that chores have given work. What was
   * published `since` then, by another part of this process, is looked for as well.
   */
  isIdle(withinMs: number, since: SteadyMs = Number.NEGATIVE_INFINITY): boolean {
    const now = this.#parts.clock.steady()
    if (this.#state !== 'running' || now < this.#pausedUntil || this.#expanding.busy || this.#tasks.busy) return false
    const { reconciledAt } = this.#book
    const askedAt = this.#reconcileAskedAt
    if (reconciledAt === undefined || reconciledAt < askedAt || askedAt <= since) {
      if (now - askedAt > reconcileAgainMs || (askedAt <= since && since < now)) {
        this.#reconcileAskedAt = now
        this.#book.reconcile()
      }
      return false
    }
    if (this.#book.claimedAt <= Math.max(reconciledAt, this.#expanding.endedAt, this.#tasks.endedAt)) {
      this.#book.claimSoon()
      return false
    }
    for (const { until } of this.#restingTasks) if (until <= now + withinMs) return false
    return this.#book.isIdleUntil(now + withinMs, now)
  }

  /** Lets go of everything without a word to the store, as a crash would. For tests. */
  crash(): void {
    this.#state = 'stopped'
    for (const cancel of this.#cancels) cancel()
    this.#alarm?.cancel()
    this.#membership.stop()
    this.#book.close()
    this.#stopChores()
  }

  #stopChores(): void {
    for (const { cancel } of this.#restingTasks) cancel()
    this.#expanding.stop()
    this.#tasks.stop()
    this.#removing.stop()
    this.#wishing.stop()
    this.#trimming.stop()
  }

  /** Goes on with a task when it has rested; until when it rests is in the store, for whoever comes first. */
  #taskRests(restMs: number): void {
    const { clock } = this.#parts
    const resting = {
      until: clock.steady() + restMs,
      cancel: clock.after(restMs, () => {
        this.#restingTasks.delete(resting)
        this.#tasks.ask()
      }),
    }
    this.#restingTasks.add(resting)
  }

  #every(ms: number, fn: () => void): void {
    const tick = () => {
      fn()
      this.#cancels[slot] = this.#parts.clock.after(ms, tick)
    }
    const slot = this.#cancels.push(this.#parts.clock.after(ms, tick)) - 1
  }

  /** Nothing is on the wire and no read is under way. */
  #isQuiet(): boolean {
    let reading = false
    this.#book.each((owned) => {
      reading ||= isReading(owned)
    })
    return !reading && this.#scheduler.inFlight === 0
  }

  #again(): void {
    if (this.#turnScheduled) return
    this.#turnScheduled = true
    this.#parts.clock.soon(() => {
      this.#turnScheduled = false
      this.#turn()
    })
  }

  #turn(): void {
    if (this.#quiet && this.#isQuiet()) this.#quiet()
    if (this.#state !== 'running') return
    const now = this.#parts.clock.steady()
    const standstill = this.#standstill(now)
    if (standstill === 'store') return this.#wakeAt(this.#pausedUntil)
    if (standstill !== null) return

    for (let owned = this.#timed.popUntil(now); owned; owned = this.#timed.popUntil(now)) {
      if (!this.#book.owns(owned) || owned.nextTimedAt > now) continue
      owned.nextTimedAt = Number.POSITIVE_INFINITY
      reopen(owned, timed)
      this.#reader.want(owned, timed)
    }
    this.#pump.run()
    const next = Math.min(this.#scheduler.wakeAt() ?? Infinity, this.#timed.peek() ?? Infinity)
    if (next < Infinity) this.#wakeAt(next)
  }

  /** Why nothing may be started now, whatever waits. */
  #standstill(now: SteadyMs): Standstill | null {
    if (now < this.#pausedUntil) return 'store'
    if (!this.#membership.holdsLease(now)) return 'lease'
    return this.#settler.size >= unsettledLimit ? 'recording' : null
  }

  /** Starts a few of what has just been read, applications in turn, before everything else has its turn. */
  #startSome(): void {
    if (this.#state === 'running' && this.#standstill(this.#parts.clock.steady()) === null) this.#pump.run(startsAtOnce)
    this.#again()
  }

  #wakeAt(at: SteadyMs): void {
    if (this.#alarm && this.#alarm.at <= at) return
    this.#alarm?.cancel()
    const wait = Math.max(0, at - this.#parts.clock.steady())
    const cancel = this.#parts.clock.after(wait, () => {
      this.#alarm = undefined
      this.#turn()
    })
    this.#alarm = { at, cancel }
  }

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

  #readAll(owned: OwnedLane): void {
    for (const c of classes) this.#reader.want(owned, c)
  }

  #expect(owned: OwnedLane, at: SteadyMs): void {
    if (at >= owned.nextTimedAt) return
    owned.nextTimedAt = at
    this.#timed.push(at, owned)
    this.#again()
  }

  #recorded(delivery: Delivery, verdict: Verdict): void {
    const { owned, row } = delivery
    owned.unsettled--
    if (delivery.standing) this.#recordedInOrder(delivery, verdict)
    if (verdict.state === 'held' || verdict.state === 'blocked') {
      this.tally.waiting++
      return
    }
    this.tally[verdict.state]++
    if (verdict.state !== 'waiting') owned.ended++
    if (isReading(owned)) owned.settledMeanwhile.push(row.message)
    else owned.held.delete(row.message)
    if (verdict.state === 'waiting') this.#expect(owned, this.#parts.clock.steady() + verdict.waitMs)
  }

  /** The next in order may go; and if somebody wanted this one out of the way while it was being sent, now it can be. */
  #recordedInOrder(delivery: Delivery, verdict: Verdict): void {
    const { owned, standing } = delivery
    const now = this.#parts.clock.steady()
    verdictRecorded(delivery, verdict, now)
    this.#scheduler.reconsider(owned.lane, now)
    if (standing?.skipped) doubt(owned)
    this.#readAll(owned)
    this.#again()
  }

  #handedBack(delivery: Delivery): void {
    if (delivery.standing) {
      const now = this.#parts.clock.steady()
      standAgain(delivery, now)
      this.#scheduler.reconsider(delivery.owned.lane, now)
      this.#again()
      return
    }
    delivery.owned.held.delete(delivery.row.message)
    reopen(delivery.owned, delivery.row.class)
    this.#again()
  }

  #housekeep(): void {
    void this.#book.refreshOutdated()
    void this.#book.releaseResting()
    const now = this.#parts.clock.steady()
    this.#book.each((owned) => {
      lookAgain(owned, now)
      for (const delivery of doomedInLine(owned)) this.#pump.endWaiting(delivery, 'overflow')
      // A read that failed for want of the store is asked for again here.
      this.#readAll(owned)
    })
    this.#again()
  }

  #lost(): void {
    this.#parts.log?.('declared dead by another worker; dropping everything and joining anew')
    this.#pump.abortAll()
    this.#settler.drop()
    this.#book.forgetAll()
  }

  #trouble(error: unknown): void {
    this.#pausedUntil = this.#parts.clock.steady() + troublePauseMs
    this.#parts.onTrouble(error)
    this.#again()
  }
}

export interface EngineParts {
  readonly store: Store
  readonly sender: Sender
  readonly clock: Clock
  readonly random: Random
  readonly randomText: RandomText
  readonly limits: { readonly inFlight: number; readonly inFlightPerApp: number }
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
