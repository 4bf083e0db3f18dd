import type { Clock, SteadyMs } from '../domain/clock.ts'

/** Something that must be over by a certain instant. Its links belong to the Deadlines it was added to. */
export abstract class Timed {
  deadlineAt: SteadyMs = 0
  slot: Timed | undefined = undefined
  before: Timed | undefined = undefined
  after: Timed | undefined = undefined

  /** Called once the deadline has passed, after it was taken off the wheel. */
  abstract expire(): void
}

class SlotHead extends Timed {
  expire(): void {}
}

const tickMs = 25
const slots = 1024 // One turn of the wheel is 25.6 s; what is due later stays for another turn.

/**
 * All deadlines on one wheel turned by one timer, because a timer of its own would cost each attempt more than its
 * signature. A deadline never fires early and at most two ticks late. The timer runs only while something is under way.
 */
export class Deadlines {
  readonly #clock: Clock
  readonly #wheel: readonly Timed[] = Array.from({ length: slots }, () => new SlotHead())
  #size = 0
  #turnedTo = 0
  #stopTimer: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Starts the time of `timed`: it expires `ms` after `now`. */
  add(timed: Timed, now: SteadyMs, ms: number): void {
    if (this.#stopTimer === undefined) this.#start(now)
    timed.deadlineAt = now + ms
    // The slot behind the one being looked at, at the earliest: its turn comes after the deadline has passed.
    const tick = Math.max(Math.floor(timed.deadlineAt / tickMs), this.#turnedTo) + 1
    const head = this.#wheel[tick % slots] as Timed
    timed.slot = head
    timed.before = head.before
    timed.after = undefined
    if (head.before) head.before.after = timed
    else head.after = timed
    head.before = timed
    this.#size++
  }

  /** Takes `timed` off; harmless when it is not on. */
  remove(timed: Timed): void {
    const head = timed.slot
    if (head === undefined) return
    if (timed.before) timed.before.after = timed.after
    else head.after = timed.after
    if (timed.after) timed.after.before = timed.before
    else head.before = timed.before
    timed.slot = timed.before = timed.after = undefined
    this.#size--
  }

  /** Everything under way. */
  all(): Timed[] {
    const found: Timed[] = []
    for (const head of this.#wheel) {
      for (let timed = head.after; timed !== undefined; timed = timed.after) found.push(timed)
    }
    return found
  }

  /** Stops the timer; nothing expires any more. */
  close(): void {
    this.#stopTimer?.()
    this.#stopTimer = undefined
  }

  #start(now: SteadyMs): void {
    this.#turnedTo = Math.floor(now / tickMs)
    this.#arm()
  }

  #arm(): void {
    // After the work of this turn, so that a process that was held up reads its sockets before it looks at its watch: an
    // answer that is already here is not late.
    this.#stopTimer = this.#clock.after(tickMs, () => this.#clock.soon(() => this.#turn()))
  }

  #turn(): void {
    if (this.#stopTimer === undefined) return
    const now = this.#clock.steady()
    const until = Math.floor(now / tickMs)
    // A process that slept for long looks at every slot once, not once per missed turn.
    const from = Math.max(this.#turnedTo + 1, until - slots + 1)
    this.#turnedTo = until
    for (let tick = from; tick <= until; tick++) this.#expireSlot(this.#wheel[tick % slots] as Timed, now)
    if (this.#stopTimer === undefined) return // Closed by what expired.
    if (this.#size > 0) this.#arm()
    else this.#stopTimer = undefined
  }

  #expireSlot(head: Timed, now: SteadyMs): void {
    const due: Timed[] = []
    for (let timed = head.after; timed !== undefined; timed = timed.after) {
      if (timed.deadlineAt <= now) due.push(timed)
    }
    for (const timed of due) {
      // The expiry of another may have ended this one too.
      if (timed.slot !== head) continue
      this.remove(timed)
      timed.expire()
    }
  }
}
