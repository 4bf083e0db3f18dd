import type { QueueCursor, Store } from './store.ts'

/** Rows counted at once: about half a millisecond of SQLite's time. */
const rowsPerPage = 5000

/** At least this many are counted beyond the limit, and a tenth of it: so counting costs little beside what it finds. */
const leastCounted = 500

/**
 * How many more of an endpoint's deliveries wait than may, as far as they were counted; negative while there is room. A
 * queue too long for one page is counted while it changes.
 */
export async function surplusOf(store: Pick<Store, 'surveyWaiting'>, endpoint: number, limit: number): Promise<number> {
  const most = Math.max(leastCounted, Math.ceil(limit / 10))
  let counted = 0
  let after: QueueCursor | null = { endpoint, class: 0, dueAt: 0, message: 0 }
  while (after?.endpoint === endpoint && counted < limit + most) {
    const page = await store.surveyWaiting(after, Math.min(rowsPerPage, limit + most - counted))
    counted += page.counts.find((count) => count.endpoint === endpoint)?.count ?? 0
    after = page.next
  }
  return counted - limit
}
