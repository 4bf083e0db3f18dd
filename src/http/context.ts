import type { Clock } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import type { Publisher } from '../intake/publisher.ts'
import type { Scanner } from '../json/scan.ts'
import type { Store } from '../store/store.ts'
import type { Listeners } from './errors.ts'

/** The parts of the program that the API works with. */
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
  readonly limits: HttpLimits
}

/** How much of the server one client may take; the names are those of the settings, which refusals mention. */
export interface HttpLimits {
  /** How long a client may leave an answer unread. */
  readonly writeTimeout: number
  /** Bytes of answers that one client, and all together, may leave unread. */
  readonly maxUnreadPerClient: number
  readonly maxUnread: number
  /** Bytes of request bodies that may be arriving from one client, and from all. */
  readonly maxUploadPerClient: number
  readonly maxUpload: number
  /** Bytes a second at which a request body must arrive. */
  readonly uploadPace: number
  /** Requests a second: of a key, of a portal token, of all callers of one application, and publishes of a key. */
  readonly apiRate: number
  readonly portalRate: number
  readonly apiRatePerApp: number
  readonly publishRate: number
  /** Audited changes a minute of all callers of one application. */
  readonly changesPerMinute: number
  /** How many of a kind may exist. */
  readonly maxEndpointsPerApp: number
  readonly maxEventTypesPerEndpoint: number
  readonly maxSchedulesPerApp: number
}
