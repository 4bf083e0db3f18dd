import type { QueueCursor } from './publishing.ts'
import type { Store } from './store.ts'

/** Rows counted at once: about half a millisecond of SQLite's time. */
const rowsPerPage = 5000
/** At least this many are counted beyond the limit, and a tenth of it: so counting costs little beside what it finds. */
const leastCounted = 500

/** Counts how many more of an endpoint's deliveries wait than may, a page at a time. The queue may change meanwhile. */
export class SurplusCount {
  readonly #store: Pick<Store, 'surveyWaiting'>
  readonly #endpoint: number
  readonly #limit: number
  readonly #most: number
  #counted = 0
  #after: QueueCursor | null

  constructor(store: Pick<Store, 'surveyWaiting'>, endpoint: number, limit: number) {
    this.#store = store
    this.#endpoint = endpoint
    this.#limit = limit
    this.#most = limit + Math.max(leastCounted, Math.ceil(limit / 10))
    this.#after = { endpoint, class: 0, dueAt: 0, message: 0 }
  }

  /** Counts the next page; answers the surplus once that is known, negative while there is room. */
  async step(): Promise<number | undefined> {
    const page = await this.#store.surveyWaiting(this.#after, Math.min(rowsPerPage, this.#most - this.#counted))
    this.#counted += page.counts.find(({ endpoint }) => endpoint === this.#endpoint)?.count ?? 0
    this.#after = page.next
    const isOver = this.#after?.endpoint !== this.#endpoint || this.#counted >= this.#most
    return isOver ? this.#counted - this.#limit : undefined
  }
}
