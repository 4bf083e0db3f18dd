import type { Clock } from '../domain/clock.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import type { SlotWaits } from '../domain/snapshot.ts'
import type { Delivery } from './delivery.ts'
import type { LaneRegistry } from './lane-registry.ts'
import type { Loop } from './loop.ts'

/** Between two looks. A lane that waits for a slot at two of them in a row could send and may not. */
const lookMs = 1000
/** Lanes that one look goes through: a millisecond. */
const lanesPerLook = 5000
/** Endpoints that a report names. */
const named = 100

/**
 * Watches for lanes that could send and wait for a slot of the worker: the delay of their deliveries is ours. A lane at the
 * limits of its endpoint or of its application is none of them.
 */
export class SlotWatch {
  readonly #deps: SlotWatchDeps
  #waits: SlotWaits = { lanes: 0, longestMs: 0, endpoints: [] }

  constructor(deps: SlotWatchDeps) {
    this.#deps = deps
  }

  /** The lanes that waited at the last look. */
  get waits(): SlotWaits {
    return this.#waits
  }

  start(): void {
    this.#deps.loop.every(lookMs, () => this.#look())
  }

  #look(): void {
    const { clock, scheduler, registry } = this.#deps
    const now = clock.steady()
    let [looked, lanes, longestMs] = [0, 0, 0]
    const endpoints: number[] = []
    registry.each((owned) => {
      if (++looked > lanesPerLook) return
      const { crowded } = scheduler.slotsOf(owned.lane, now)
      if (crowded === null || crowded === 'application') owned.crowdedSince = undefined
      else {
        owned.crowdedSince ??= now
        const ms = now - owned.crowdedSince
        if (ms < lookMs / 2) return
        lanes++
        longestMs = Math.max(longestMs, ms)
        if (endpoints.length < named) endpoints.push(owned.endpoint.key)
      }
    })
    this.#waits = { lanes, longestMs: Math.round(longestMs), endpoints }
  }
}

interface SlotWatchDeps {
  readonly clock: Clock
  readonly scheduler: Pick<Scheduler<Delivery>, 'slotsOf'>
  readonly registry: Pick<LaneRegistry, 'each'>
  readonly loop: Pick<Loop, 'every'>
}
