import type { Clock } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import type { Publisher } from '../intake/publisher.ts'
import type { Scanner } from '../json/scan.ts'
import type { Store } from '../store/store.ts'

/** The parts of the program that the operations work with. */
export interface Context {
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
  /** The URL of this server for its users; null for the host that a request names. */
  readonly publicUrl: string | null
  readonly bodyLimitBytes: number
  readonly limits: Limits
  /** Logs an error that no caller can have caused. */
  readonly onBug: (error: unknown) => void
}

/** How many of a kind may exist; the names are those of the settings, which refusals mention. */
export interface Limits {
  readonly maxEndpointsPerApp: number
  readonly maxEventTypesPerEndpoint: number
  readonly maxSchedulesPerApp: number
}
