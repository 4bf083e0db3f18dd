import type { Clock } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import type { Publisher } from '../intake/publisher.ts'
import type { Scanner } from '../intake/scan.ts'
import type { Store } from '../store/store.ts'
import type { Listeners } from './errors.ts'

/** What the API needs from the rest of the program. */
export interface HttpContext extends Listeners {
  readonly store: Store
  readonly publisher: Publisher
  readonly scanner: Scanner
  readonly clock: Clock
  readonly randomBytes: (length: number) => Uint8Array
  readonly randomText: RandomText
  /** Everything wrong with an endpoint's URL, as sentences. */
  readonly checkUrl: (url: string) => readonly string[]
  /** A key admitted beside those in the store. */
  readonly apiKey: string | null
  /** Where people reach this server; null for wherever the request came to. */
  readonly publicUrl: string | null
  readonly bodyLimitBytes: number
  /** How long a client may take to send a request. */
  readonly requestTimeoutMs: number
}
