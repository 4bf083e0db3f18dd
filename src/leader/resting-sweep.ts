import { oldest, trimmedTo } from '../domain/flow.ts'
import { overdue } from '../domain/judge.ts'
import { retryPolicyOf } from '../features/endpoints/rules.ts'
import { type RestingEnd, type RestingLane, SurplusCount } from '../store/delivering.ts'
import type { Store } from '../store/store.ts'

/** Endpoints looked at in one step. Each takes SQLite five statements: 200 took 20 ms of CPU time, 40 take 4 ms. */
const lanesPerStep = 40
/**
 * A lane that became due less than this long ago is about to be taken by a worker, which does the same for it. While
 * 100,000 lanes wait to be claimed, looking at each of them took a twelfth of the process.
 */
const wakingMs = 60_000
/** Deliveries ended in one step. */
const chunkRows = 500

type SweptStore = Pick<Store, 'surveyWaiting' | 'readResting' | 'readFronts' | 'readExpired' | 'endResting'>

/**
 * Ends deliveries that expired, waited for too long or are too many, in lanes without an owner: stopped ones and sleeping
 * ones. Owners do this for their own lanes. A sweep is many short steps, and any number of processes may sweep at once.
 */
export class RestingSweep {
  readonly #store: SweptStore
  readonly #waitingLimit: number
  #phase: 'expired' | 'lanes' | 'over' = 'expired'
  #expiredFrom: number | null = null
  #after: number | null = null
  /** Lanes in which deliveries may have to end. */
  #found: SweptLane[] = []

  /** `waitingLimit` is how many deliveries may wait at an endpoint that sets no limit of its own. */
  constructor(store: SweptStore, waitingLimit: number) {
    this.#store = store
    this.#waitingLimit = waitingLimit
  }

  /** Does the next part; answers false when the sweep is done, after which the next one begins. */
  async step(): Promise<boolean> {
    const found = this.#found.at(-1)
    if (found) {
      if (!(await this.#endSome(found))) this.#found.pop()
      return true
    }
    if (this.#phase === 'expired') await this.#endExpired()
    else if (this.#phase === 'lanes') await this.#find()
    else {
      this.#phase = 'expired'
      return false
    }
    return true
  }

  async #endExpired(): Promise<void> {
    const { deliveries, next } = await this.#store.readExpired(this.#expiredFrom, chunkRows)
    await this.#store.endResting(deliveries.map((delivery) => ({ ...delivery, reason: 'expired' })))
    this.#expiredFrom = next
    if (next === null) this.#phase = 'lanes'
  }

  async #find(): Promise<void> {
    const { lanes, next } = await this.#store.readResting(this.#after, lanesPerStep, wakingMs)
    this.#found = lanes
      .filter((each) => this.#isToEnd(each))
      .map((lane) => ({ lane, count: undefined, surplus: undefined }))
    this.#after = next
    if (next === null) this.#phase = 'over'
  }

  #isToEnd(lane: RestingLane): boolean {
    return this.#overdueOf(lane, lane.rows).length > 0 || trimmedTo(lane, this.#waitingLimit) !== undefined
  }

  /** Counts a page of one lane, or ends up to a chunk of it; answers whether more of it is left to do. */
  async #endSome(found: SweptLane): Promise<boolean> {
    const { lane, count } = found
    if (count) {
      found.surplus = await count.step()
      if (found.surplus !== undefined) found.count = undefined
      return true
    }
    const rows = await this.#store.readFronts(lane.endpoint, chunkRows)
    const late = this.#overdueOf(lane, rows)
    if (late.length === 0 && found.surplus === undefined) {
      const limit = trimmedTo(lane, this.#waitingLimit)
      if (limit !== undefined) found.count = new SurplusCount(this.#store, lane.endpoint, limit)
      return limit !== undefined
    }
    const ends = late.length > 0 ? late : surplusOf(found, rows)
    const ended = await this.#store.endResting(ends.slice(0, chunkRows))
    // More may have been there than were counted.
    if (found.surplus !== undefined) found.surplus = found.surplus - ended.length || undefined
    // If none could be ended a worker has taken the lane, and trims it from now on.
    return ended.length > 0
  }

  #overdueOf(lane: RestingLane, rows: RestingLane['rows']): RestingEnd[] {
    const { endpoint, app } = lane
    const { maxAgeMs } = retryPolicyOf(lane)
    return rows.flatMap((row) => {
      const reason = overdue(row.ageMs, row.expiresInMs, maxAgeMs)
      return reason === undefined ? [] : [{ endpoint, app, row, reason }]
    })
  }
}

/** A lane in which deliveries may have to end. */
interface SweptLane {
  readonly lane: RestingLane
  /** The count under way. */
  count: SurplusCount | undefined
  /** How many deliveries are beyond the limit, as far as they were counted. */
  surplus: number | undefined
}

function surplusOf({ lane: { endpoint, app }, surplus = 0 }: SweptLane, rows: RestingLane['rows']): RestingEnd[] {
  return oldest(rows, surplus).map((row) => ({ endpoint, app, row, reason: 'overflow' }))
}
