import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import type { Standstill } from '../domain/snapshot.ts'
import type { Membership } from './membership.ts'
import type { Delivery, OwnedLane } from './owned-lane.ts'
import type { Pump } from './pump.ts'
import type { Settler } from './settler.ts'
import type { TimedLanes } from './timed-lanes.ts'

/** After trouble with the store, nothing is started for this long: each start would need the store again. */
const troublePauseMs = 100
/** Ended attempts that may wait for the store before nothing more is started. */
const unsettledLimit = 4096

/**
 * When the worker looks for something to start: whenever something has changed, at most once a turn of the event loop, and
 * at the instant at which something comes due; and not at all while it may not.
 */
export class Turns {
  readonly #parts: TurnsParts
  #running = false
  #scheduled = false
  #pausedUntil: SteadyMs = Number.NEGATIVE_INFINITY
  #alarm: { at: SteadyMs; cancel: () => void } | undefined

  constructor(parts: TurnsParts) {
    this.#parts = parts
  }

  start(): void {
    this.#running = true
  }

  /** Nothing is started any more. */
  stop(): void {
    this.#running = false
    this.#alarm?.cancel()
  }

  /** Something may be startable that was not. */
  again(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#parts.clock.soon(() => {
      this.#scheduled = false
      this.#turn()
    })
  }

  /**
   * Starts some of what has just been read, applications in turn. While one tenant's flood keeps the process busy, what another
   * publishes would otherwise wait for one more turn of everything.
   */
  startSome(): void {
    if (this.#running && this.standstill(this.#parts.clock.steady()) === null) this.#parts.pump.run()
    this.again()
  }

  /** The store is in trouble. */
  pause(): void {
    this.#pausedUntil = this.#parts.clock.steady() + troublePauseMs
    this.again()
  }

  /** Why nothing may be started now, whatever waits. */
  standstill(now: SteadyMs): Standstill | null {
    const { membership, settler } = this.#parts
    if (now < this.#pausedUntil) return 'store'
    if (!membership.holdsLease(now)) return 'lease'
    return settler.size >= unsettledLimit ? 'recording' : null
  }

  #turn(): void {
    const { clock, timed, pump, scheduler, onTurn, onDue } = this.#parts
    onTurn()
    if (!this.#running) return
    const now = clock.steady()
    const standstill = this.standstill(now)
    if (standstill === 'store') return this.#wakeAt(this.#pausedUntil)
    // The next turn comes with what is recorded, or with housekeeping.
    if (standstill !== null) return

    for (let owned = timed.takeDue(now); owned; owned = timed.takeDue(now)) onDue(owned)
    pump.run()
    const next = Math.min(scheduler.wakeAt() ?? Number.POSITIVE_INFINITY, timed.nextAt)
    if (next < Number.POSITIVE_INFINITY) this.#wakeAt(next)
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
}

export interface TurnsParts {
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  readonly membership: Membership
  readonly settler: Settler
  readonly timed: TimedLanes
  readonly pump: Pump
  /** A turn begins, also where nothing may be started. */
  onTurn(): void
  /** A timed row of the lane is due. */
  onDue(owned: OwnedLane): void
}
