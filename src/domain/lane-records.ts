import type { EndpointRecord } from './lane.ts'
import { FailureBudget } from './rate.ts'
import { SlotUse } from './slot-use.ts'

/** Half of the records that are kept: a generation. */
const recordsPerGeneration = 32_768

/**
 * The records of the endpoints that were here last, 32,768 of them at least, also while another worker owns their lanes: a
 * lane that hangs or fails is not new each time. They are kept in two generations: taking the oldest out of one map at each
 * recall took 3.5 µs, because a map is searched from its front, where those that were taken out have left gaps.
 */
export class EndpointRecords {
  readonly #failuresPerMinute: number
  #recent = new Map<number, EndpointRecord>()
  #older = new Map<number, EndpointRecord>()

  /** `failuresPerMinute` limits the attempts at one endpoint that may fail; 0 for any number. */
  constructor(failuresPerMinute: number) {
    this.#failuresPerMinute = failuresPerMinute
  }

  /** The record of an endpoint that is here again. */
  recall(endpoint: number): EndpointRecord {
    const recent = this.#recent.get(endpoint)
    if (recent !== undefined) return recent
    const record = this.#older.get(endpoint) ?? this.#newRecord()
    if (this.#recent.size >= recordsPerGeneration) {
      this.#older = this.#recent
      this.#recent = new Map()
    }
    this.#recent.set(endpoint, record)
    return record
  }

  #newRecord(): EndpointRecord {
    const failures = this.#failuresPerMinute > 0 ? new FailureBudget(this.#failuresPerMinute) : undefined
    return { use: new SlotUse(), failures }
  }
}
