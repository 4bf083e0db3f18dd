import type { Clock } from '../domain/clock.ts'
import type { Verdict } from '../domain/judge.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { type Delivery, doubt, isReading, reopen } from './owned-lane.ts'
import type { Reader } from './reader.ts'
import { standAgain, verdictRecorded } from './standing.ts'
import type { TimedLanes } from './timed-lanes.ts'

/** Brings what is in memory of a lane in line with what has been recorded of its deliveries. */
export class Bookkeeping {
  readonly #parts: BookkeepingParts
  /** How many attempts ended how, since the start. */
  readonly tally: Record<'delivered' | 'waiting' | 'dead', number> = { delivered: 0, waiting: 0, dead: 0 }

  constructor(parts: BookkeepingParts) {
    this.#parts = parts
  }

  /** A verdict is durable, or no longer ours. */
  recorded(delivery: Delivery, verdict: Verdict): void {
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
    if (verdict.state !== 'waiting') return
    const { clock, timed, again } = this.#parts
    if (timed.expect(owned, clock.steady() + verdict.waitMs)) again()
  }

  /** An attempt was given up unrecorded: its row is where it was. */
  handedBack(delivery: Delivery): void {
    const { clock, scheduler, again } = this.#parts
    const { owned, row } = delivery
    if (delivery.standing) {
      const now = clock.steady()
      standAgain(delivery, now)
      scheduler.reconsider(owned.lane, now)
    } else {
      owned.held.delete(row.message)
      reopen(owned, row.class)
    }
    again()
  }

  /** The next in order may go; and if somebody wanted this one out of the way while it was being sent, now it can be. */
  #recordedInOrder(delivery: Delivery, verdict: Verdict): void {
    const { clock, scheduler, reader, again } = this.#parts
    const { owned, standing } = delivery
    const now = clock.steady()
    verdictRecorded(delivery, verdict, now)
    scheduler.reconsider(owned.lane, now)
    if (standing?.skipped) doubt(owned)
    reader.wantAll(owned)
    again()
  }
}

export interface BookkeepingParts {
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  readonly timed: TimedLanes
  readonly reader: Reader
  /** Something may be startable that was not. */
  again(): void
}
