import type { SignatureProfile } from '../domain/flow.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { TraceContext } from '../domain/trace-context.ts'
import type { Sliced } from '../domain/turns.ts'
import type { SignatureHeaders } from '../features/applications/noun.ts'
import type { ClientCertificates, EndpointAuth } from '../features/credentials/rules.ts'
import type { Method, Secret } from '../features/endpoints/rules.ts'
import type { HeaderTemplates } from '../wire/headers.ts'

/** Where an endpoint's deliveries go and how they are signed. */
export interface Target {
  readonly url: string
  /** POST when it is missing. */
  readonly method?: Method
  readonly secrets: readonly Secret[]
  readonly headers: Readonly<Record<string, string>>
  /** Credentials beside the signature; null for none. */
  readonly auth?: EndpointAuth | null
  /** Certificates that connections show to the receiver; null for none. */
  readonly clientCertificates?: ClientCertificates | null
  /** The name of the egress proxy that the endpoint chose, or `direct`; its region's, or that of all others, when missing. */
  readonly egressProxy?: string | null | undefined
  readonly region?: string | null | undefined
  /** Nothing is sent to a target whose stored secrets, headers or credentials do not open. */
  readonly damaged?: boolean
  readonly timeoutMs: number
  /** The limit of opening a connection, within `timeoutMs`; as long as that when it is missing. */
  readonly connectTimeoutMs?: number
  /** Standard Webhooks when it is missing. */
  readonly signature?: SignatureProfile
  /** Names of the signature headers; the sender's default when it is missing. */
  readonly signatureHeaders?: SignatureHeaders | null
  /** The endpoint's id, for header templates. */
  readonly endpointId?: string
  /** Headers with values of the delivery; they give way to headers of the same name. */
  readonly headerTemplates?: HeaderTemplates
  /** Shapes a body that was not shaped when its message was accepted; undefined when nothing of it may be sent. */
  readonly shape?: ((body: Uint8Array) => Sliced<Uint8Array | undefined>) | undefined
}

/** A message about to be sent to one target. */
export interface OutgoingMessage {
  readonly id: string
  readonly eventType?: string
  readonly body: Uint8Array
  readonly contentType: string
  /** The message's own headers; they go before the endpoint's. */
  readonly headers?: Readonly<Record<string, string>> | null
  /** The headers with which it arrived at a source, for header templates. */
  readonly arrivedHeaders?: Readonly<Record<string, string>> | null
  /** The context of a trace that the receiver may continue. */
  readonly propagated?: TraceContext
  /** The key of a body that was shaped at publish, and is not shaped again; null for the published body. */
  readonly variant?: number | null
  /** The signature that was made at publish. */
  readonly signature?: string | null
}

/** Makes attempts on the wire. */
export interface Sender {
  /**
   * Opens a target. Its first attempt prepares it, once per change of the endpoint: parses the URL and decodes the keys. It
   * never fails; attempts at an unusable target end as `blocked`.
   */
  open(target: Target): OpenTarget
  /** Ends every attempt under way as `aborted` and closes all connections. */
  close(): Promise<void>
}

/** A target that is prepared, or will be. */
export interface OpenTarget {
  /**
   * Makes one attempt. `onLeave` is called when the request is written to a connected socket, and not when the attempt fails
   * before; `onEnd` is called exactly once, last. Neither is called before `send` has returned. The answer aborts the
   * attempt: `onEnd` follows at once with `aborted`, or with the status when one had arrived.
   *
   * `mayLeave` is asked immediately before the request is written, each time; after a no the attempt ends as `aborted`.
   * Connecting takes time, and a process that was stopped meanwhile handles the socket before its timers. `attempt` is the
   * number of the attempt, 1 by default.
   */
  send(
    message: OutgoingMessage,
    onLeave: () => void,
    onEnd: (outcome: Outcome) => void,
    mayLeave?: () => boolean,
    attempt?: number,
  ): () => void
  /** No attempt is expected for now: the prepared parts are forgotten, and made again for the next attempt. */
  rest?(): void
  /** The target is no longer used: connections with its client certificates close when their attempts have ended. */
  retire?(): void
}
