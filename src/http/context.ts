import type { Context, Limits } from '../operations/parts.ts'
import type { MetricsPage } from './metrics.ts'
import type { PageOptions } from './pages.ts'

/** The parts of the program that the server works with. */
export interface HttpContext extends Context, PageOptions {
  /** How long a client may take to send a request. */
  readonly requestTimeoutMs: number
  readonly limits: HttpLimits
  /** Networks of proxies whose `X-Forwarded-For` names the client. */
  readonly trustedProxies: readonly string[]
  /** Missing where no metrics are offered. */
  readonly metrics?: MetricsPage
  /** Logs a client that hung up before its request was carried out. */
  readonly onHangUp: (request: { readonly method: string; readonly url: string }) => void
}

/** How much of the server one client may take; the names are those of the settings, which refusals mention. */
export interface HttpLimits extends Limits {
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
}
