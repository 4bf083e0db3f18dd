import type { EpochMs } from '../domain/clock.ts'
import type { Store } from '../store/store.ts'

/** The deliveries of a message have ended: when the last one did, and whether all succeeded. */
export interface Ended {
  readonly at: EpochMs
  readonly allDelivered: boolean
}

interface Walk extends Ended {
  readonly from: number
  readonly version: number
}

/** Messages that may be half looked at. The oldest is forgotten and looked at from its start. */
const walksKept = 10_000

/**
 * Finds out whether the deliveries of messages have ended. A message may have very many, so each call looks at some hundred
 * and remembers how far it came.
 */
export class DeliveryEnds {
  readonly #store: Pick<Store, 'deliveriesEnd'>
  readonly #walks = new Map<number, Walk>()

  constructor(store: Pick<Store, 'deliveriesEnd'>) {
    this.#store = store
  }

  /**
   * `queued` while a delivery is; `more` when there are more to look at, by another call. A call with another version
   * begins again: deliveries that were looked at may have been replayed since.
   */
  async of(message: number, version = 0): Promise<Ended | 'queued' | 'more'> {
    const known = this.#walks.get(message)
    const { from, at, allDelivered } = known?.version === version ? known : { from: 0, at: 0, allDelivered: true }
    const end = await this.#store.deliveriesEnd(message, from)
    if (end === undefined) return 'queued'
    const ended = { at: Math.max(at, end.at), allDelivered: allDelivered && end.allDelivered }
    this.#walks.delete(message)
    if (end.next === null) return ended
    this.#walks.set(message, { ...ended, from: end.next, version })
    if (this.#walks.size > walksKept) this.#walks.delete(this.#walks.keys().next().value as number)
    return 'more'
  }
}
