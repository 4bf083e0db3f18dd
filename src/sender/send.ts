import type { Method, Secret, SignatureHeaders } from '../domain/endpoint.ts'
import type { SignatureProfile } from '../domain/flow.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { Parts } from '../domain/turns.ts'

/** Where an endpoint's deliveries go and how they are signed. Prepared once per change of the endpoint. */
export interface Target {
  readonly url: string
  /** POST when it is missing. */
  readonly method?: Method
  readonly secrets: readonly Secret[]
  readonly headers: Readonly<Record<string, string>>
  /** Nothing is sent to a target whose stored secrets or headers do not open. */
  readonly damaged?: boolean
  readonly timeoutMs: number
  /** Standard Webhooks when it is missing. */
  readonly signature?: SignatureProfile
  /** Names of headers that differ from the profile's. */
  readonly signatureHeaders?: SignatureHeaders
  /** Shapes a body that was not shaped when its message was accepted; its answer is undefined when nothing may be sent. */
  readonly shape?: ((body: Uint8Array) => Parts<Uint8Array | undefined>) | undefined
}

/** One message about to leave. */
export interface Parcel {
  readonly id: string
  readonly body: Uint8Array
  readonly contentType: string
  /** Sent beside the endpoint's own, before which they go. */
  readonly headers?: Readonly<Record<string, string>> | null
  /** Whether the body is the one that was published; one that was given its form already is not given it twice. */
  readonly variant?: number | null
  /** Made when it was accepted. */
  readonly signature?: string | null
}

/**
 * Makes attempts on the wire. `open` prepares a target (parses the URL, decodes the keys) and never fails: a target that
 * cannot be used yields attempts that end as `blocked`.
 */
export interface Sender {
  open(target: Target): Line
  /** Ends every attempt under way as `aborted` and closes all connections. */
  close(): Promise<void>
}

/** A prepared target. */
export interface Line {
  /**
   * Makes one attempt. Exactly one of the two happens, always, whatever the receiver does:
   * `onLeave` at the moment the request is written to a connected socket (never when it fails before), then `onEnd`; or
   * `onEnd` alone. Neither is called before `send` has returned. The answer aborts the attempt: `onEnd` follows at once
   * with `aborted`, or with the status when one had arrived, unless it already came.
   *
   * `mayLeave` is asked immediately before the request is written, each time; after a no the attempt ends as `aborted`.
   * Connecting takes time, and a process that was stopped meanwhile goes on with the socket before it sees to its timers.
   */
  send(parcel: Parcel, onLeave: () => void, onEnd: (outcome: Outcome) => void, mayLeave?: () => boolean): () => void
}
