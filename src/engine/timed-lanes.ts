import type { SteadyMs } from '../domain/clock.ts'
import { Heap } from '../domain/heap.ts'
import type { OwnedLane } from './owned-lane.ts'

/** Owned lanes by the instant at which their next timed row is due. */
export class TimedLanes {
  readonly #heap = new Heap<OwnedLane>()

  /** A timed row of the lane will be due then; answers whether that is sooner than anything known. */
  expect(owned: OwnedLane, at: SteadyMs): boolean {
    if (at >= owned.nextTimedAt) return false
    owned.nextTimedAt = at
    this.#heap.push(at, owned)
    return true
  }

  /** When the first of them is due; `Infinity` for never. */
  get nextAt(): SteadyMs {
    return this.#heap.peek() ?? Number.POSITIVE_INFINITY
  }

  /** Takes out a lane whose time has come, if there is one. */
  takeDue(now: SteadyMs): OwnedLane | undefined {
    for (let owned = this.#heap.popUntil(now); owned; owned = this.#heap.popUntil(now)) {
      // Otherwise it was taken out since, and expects another.
      if (owned.nextTimedAt > now) continue
      owned.nextTimedAt = Number.POSITIVE_INFINITY
      return owned
    }
    return undefined
  }
}
