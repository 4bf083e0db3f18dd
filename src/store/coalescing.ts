import type { EpochMs } from '../domain/clock.ts'
import type { DeliveryKey } from './browsing.ts'
import { bringForwardMs } from './replaying.ts'

/**
 * Deliveries that give way to a newer one of their kind before they are sent. The first of a kind opens a window and is
 * due at its end; each later one takes the place of the one that waits, and the instant it is due.
 */
export interface Coalescing {
  /** What deliveries gave way to, in the order asked; undefined for those that did not. */
  findCoalesced(deliveries: readonly DeliveryKey[]): Promise<(Coalesced | undefined)[]>
  /** Forgets up to `limit` windows that have ended; answers how many that were. */
  sweepWindows(limit: number): Promise<number>
}

export interface Coalesced {
  readonly at: EpochMs
  /** The message that took its place, which may have given way itself; null when that message is gone. */
  readonly into: string | null
}

/**
 * A window that ends within this time takes nothing in any more, and the next message opens another: a worker may be
 * about to read the row that waits, and would send what another one has replaced.
 */
export const closingMs = bringForwardMs
