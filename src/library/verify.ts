import type { SignatureHeaders } from '../domain/application-fields.ts'
import type { SignatureProfile } from '../domain/flow.ts'
import { systemClock } from '../runtime/clock.ts'
import { openVerifier, type ReceivedHeaders } from '../wire/receiver.ts'

export { SecretError, SignatureError } from '../wire/receiver.ts'

/** A request as it was received: the headers of `fetch` or a record of them, as Node has it, and the bytes of the body. */
export interface ReceivedWebhook {
  readonly headers: ReceivedHeaders
  readonly body: Uint8Array | string
}

export interface VerifyOptions {
  /** The endpoint's `signature`; Standard Webhooks by default. */
  readonly profile?: SignatureProfile | undefined
  /** The application's `signatureHeaders`, if it has its own. */
  readonly headers?: SignatureHeaders | undefined
}

/**
 * Verifies a received webhook with the secret of its endpoint. Rejects with `SignatureError`, which has a code and a
 * remedy, unless the webhook is genuine. The body must be the bytes that arrived, before any JSON parser.
 */
export async function verify(received: ReceivedWebhook, secret: string, options: VerifyOptions = {}): Promise<void> {
  await openVerifier({ ...options, secret, now: () => systemClock.now() }).verify(received)
}
