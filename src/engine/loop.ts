import type { Clock, SteadyMs } from '../domain/clock.ts'
import { timed } from '../domain/delivery.ts'
import { Heap } from '../domain/queue.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import type { Standstill } from '../domain/snapshot.ts'
import type { Delivery } from './delivery.ts'
import type { Membership } from './membership.ts'
import type { OwnedLane } from './owned-lane.ts'
import type { Ownership } from './ownership.ts'
import type { Pump } from './pump.ts'
import type { Reader } from './reader.ts'
import type { SettleQueue } from './settling.ts'

/** After trouble with the store nothing is started for this long: each start would need the store again. */
const troublePauseMs = 100
/** Results that may wait for the store before nothing more is started. */
const unsettledLimit = 4096

/**
 * The worker's loop: it runs the pump after a change that lets something start, at most once a turn of the event loop, and at
 * the instant at which a sleeping lane wakes or a timed row is due; not while the store is in trouble, the lease is over or too
 * many results are unrecorded. A lone delivery runs the pump once.
 */
export class Loop {
  readonly #deps: LoopDeps
  readonly #timed = new TimedLanes()
  readonly #timers: (() => void)[] = []
  #work: LoopWork | undefined
  #stopped = false
  #scheduled = false
  #pausedUntil: SteadyMs = Number.NEGATIVE_INFINITY
  #alarm: { at: SteadyMs; cancel: () => void } | undefined

  constructor(deps: LoopDeps) {
    this.#deps = deps
  }

  start(work: LoopWork): void {
    this.#work = work
  }

  /** Starts nothing more, and repeats nothing more. */
  stop(): void {
    this.#stopped = true
    this.#alarm?.cancel()
    for (const cancel of this.#timers) cancel()
  }

  /** Calls a function at this interval, first when it has passed once. */
  every(ms: number, fn: () => void): void {
    const tick = () => {
      fn()
      if (!this.#stopped) this.#timers[slot] = this.#deps.clock.after(ms, tick)
    }
    const slot = this.#timers.push(this.#deps.clock.after(ms, tick)) - 1
  }

  /** Something changed: if a delivery may be startable now, a turn follows soon. The change comes before the call. */
  wake(): void {
    if (this.#scheduled || this.#work === undefined || this.#stopped) return
    if (!this.#hasWork(this.#work)) return this.#sleep()
    this.#scheduled = true
    this.#deps.clock.soon(() => {
      this.#scheduled = false
      this.turn()
    })
  }

  #hasWork({ ownership }: LoopWork): boolean {
    const now = this.#deps.clock.steady()
    return ownership.awaitsTurn || this.#timed.nextAt <= now || this.#deps.scheduler.hasWork(now)
  }

  /** The store is in trouble. */
  pause(): void {
    this.#pausedUntil = this.#deps.clock.steady() + troublePauseMs
    if (!this.#stopped) this.#wakeAt(this.#pausedUntil)
  }

  /** A timed row of the lane will be due then, and is read then. */
  expectTimed(owned: OwnedLane, at: SteadyMs): void {
    if (this.#timed.expect(owned, at)) this.wake()
  }

  /** Why nothing at all may be started now. */
  standstill(now: SteadyMs): Standstill | null {
    if (now < this.#pausedUntil) return 'store'
    if (!this.#deps.membership.holdsLease(now)) return 'lease'
    return this.#work && this.#work.queue.size >= unsettledLimit ? 'recording' : null
  }

  /**
   * A turn now: starts what may start, applications in turn. Rows that were just read or stored do not wait for a turn of the
   * event loop: while one tenant's flood keeps the process busy, the messages of another would wait behind everything.
   */
  turn(): void {
    if (this.#work === undefined || this.#stopped) return
    const now = this.#deps.clock.steady()
    const standstill = this.standstill(now)
    if (standstill === 'store') return this.#wakeAt(this.#pausedUntil)
    // The next turn comes with the next recorded batch, or with housekeeping.
    if (standstill !== null) return

    const { pump, reader, ownership } = this.#work
    for (let owned = this.#timed.takeDue(now); owned; owned = this.#timed.takeDue(now)) reader.request(owned, timed)
    pump.run()
    ownership.turn()
    this.#sleep()
  }

  /** Sets the alarm for the next sleeping lane or timed row. */
  #sleep(): void {
    const next = Math.min(this.#deps.scheduler.wakeAt() ?? Number.POSITIVE_INFINITY, this.#timed.nextAt)
    if (next < Number.POSITIVE_INFINITY) this.#wakeAt(next)
  }

  #wakeAt(at: SteadyMs): void {
    if (this.#alarm && this.#alarm.at <= at) return
    this.#alarm?.cancel()
    const wait = Math.max(0, at - this.#deps.clock.steady())
    const cancel = this.#deps.clock.after(wait, () => {
      this.#alarm = undefined
      this.turn()
    })
    this.#alarm = { at, cancel }
  }
}

/** Owned lanes by the instant at which their next timed row is due. */
export class TimedLanes {
  /** May contain instants that are out of date; the lane knows its own. */
  readonly #heap = new Heap<OwnedLane>()

  /** A timed row of the lane will be due then. Answers whether that is sooner than any known of the lane. */
  expect(owned: OwnedLane, at: SteadyMs): boolean {
    if (!owned.expectTimed(at)) return false
    this.#heap.push(at, owned)
    return true
  }

  /** When the first row is due; `Infinity` for never. */
  get nextAt(): SteadyMs {
    return this.#heap.peek() ?? Number.POSITIVE_INFINITY
  }

  /** Takes out a lane of which a row is due, if there is one. */
  takeDue(now: SteadyMs): OwnedLane | undefined {
    for (let owned = this.#heap.popUntil(now); owned; owned = this.#heap.popUntil(now)) {
      if (owned.takeTimed(now) && owned.isOwned) return owned
    }
    return undefined
  }
}

interface LoopDeps {
  readonly clock: Clock
  readonly scheduler: Pick<Scheduler<Delivery>, 'wakeAt' | 'hasWork'>
  readonly membership: Pick<Membership, 'holdsLease'>
}

/** The parts that the loop drives. They in turn wake the loop, so it gets them when it starts. */
interface LoopWork {
  readonly pump: Pick<Pump, 'run'>
  readonly reader: Pick<Reader, 'request'>
  readonly queue: Pick<SettleQueue, 'size'>
  readonly ownership: Pick<Ownership, 'turn' | 'awaitsTurn'>
}
