import type { EndpointRecord } from './lane.ts'
import { FailureBudget } from './rate.ts'
import { SlotUse } from './slot-use.ts'

const mostRecords = 65_536

/**
 * The records of the 65,536 endpoints that were here last, also while another worker owns their lanes: a lane that
 * hangs or fails is not new each time.
 */
export class EndpointRecords {
  readonly #failuresPerMinute: number
  /** The most recent are at the end. */
  readonly #records = new Map<number, EndpointRecord>()

  /** `failuresPerMinute` limits the attempts at one endpoint that may fail; 0 for any number. */
  constructor(failuresPerMinute: number) {
    this.#failuresPerMinute = failuresPerMinute
  }

  /** The record of an endpoint that is here again. */
  recall(endpoint: number): EndpointRecord {
    const record = this.#records.get(endpoint) ?? this.#newRecord()
    this.#records.delete(endpoint)
    if (this.#records.size >= mostRecords) this.#records.delete(this.#records.keys().next().value as number)
    this.#records.set(endpoint, record)
    return record
  }

  #newRecord(): EndpointRecord {
    const failures = this.#failuresPerMinute > 0 ? new FailureBudget(this.#failuresPerMinute) : undefined
    return { use: new SlotUse(), failures }
  }
}
