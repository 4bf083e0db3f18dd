import type { SteadyMs } from '../../domain/clock.ts'
import { fresh } from '../../domain/delivery.ts'
import { queuedAtOnce, queuedInOrder, wideOnes } from '../plan.ts'
import type { Publication } from '../publishing.ts'
import type { StoredMessage } from '../store.ts'
import type { Database } from './database.ts'
import type { PlannedDelivery } from './planned.ts'

/** The deliveries that a transaction queued, for the signals after it. */
export interface Queued {
  /** The accepted publications. */
  readonly queued: readonly Publication[]
  /** Those of it that are plain and due at once. */
  readonly fresh: readonly StoredMessage[]
  /** Deliveries that wait for the end of a window they opened. */
  readonly opened: readonly PlannedDelivery[]
  readonly now: number
}

/** The endpoints in whose queues something was put that is due when its message is. */
function queuedFor({ endpoints, special }: Publication): readonly number[] {
  if (special === undefined) return endpoints
  const others = new Set<number>()
  for (const { endpoint, drop, coalesce } of special) {
    if (drop !== undefined || coalesce !== undefined) others.add(endpoint)
  }
  return others.size === 0 ? endpoints : endpoints.filter((endpoint) => !others.has(endpoint))
}

/**
 * Signals rows just committed to this process's watcher, and has unowned lanes woken. `begunAt` is when storing
 * them began.
 */
export function announce(
  { signals, wakes }: Database,
  { queued, fresh: stored, opened, now }: Queued,
  begunAt: SteadyMs,
): void {
  const endpoints = new Set<number>()
  const freshOnes = new Set<number>()
  let onlyFresh = opened.length === 0
  // A delivery that replaced another is due when that was, and its lane knows.
  for (const { endpoint, since } of opened) {
    wakes.request([endpoint], since, false)
    endpoints.add(endpoint)
  }
  if (wideOnes(queued).includes(true)) signals.fanOuts()
  for (const publication of queued) {
    // The other lanes are woken when it is expanded.
    const isWide = publication.endpoints.length > queuedAtOnce
    const those = isWide ? queuedInOrder(publication) : queuedFor(publication)
    const isFresh = publication.delayMs <= 0
    if (!isFresh) {
      onlyFresh = false
      wakes.request(those, now + Math.ceil(publication.delayMs), false)
    }
    for (const endpoint of those) {
      endpoints.add(endpoint)
      if (isFresh) freshOnes.add(endpoint)
    }
  }
  if (endpoints.size === 0) return
  wakes.request(freshOnes, 0, true)
  if (stored.length === queued.length) signals.stored(stored, begunAt)
  else signals.rows([...endpoints], onlyFresh ? fresh : undefined)
}
