import type { SignatureHeaders } from '../domain/application-fields.ts'
import type { SignatureProfile } from '../domain/flow.ts'
import { systemClock } from '../runtime/clock.ts'
import { openProfileVerifier } from '../wire/verify.ts'

/** A request as it was received: the headers by lower-case name, as Node has them, and the bytes of the body. */
export interface ReceivedWebhook {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Uint8Array | string
}

export interface VerifyOptions {
  /** The endpoint's `signature`; Standard Webhooks by default. */
  readonly profile?: SignatureProfile | undefined
  /** The application's `signatureHeaders`, if it has its own. */
  readonly headers?: SignatureHeaders | undefined
}

/** The webhook was not signed with the secret, or more than five minutes ago. */
export class SignatureError extends Error {
  override readonly name = 'SignatureError'
}

/**
 * Verifies a received webhook with the secret of its endpoint. Throws `SignatureError` with the reason unless it is
 * genuine. The body must be the bytes that arrived, before any JSON parser.
 */
export function verify({ headers, body }: ReceivedWebhook, secret: string, options: VerifyOptions = {}): void {
  const check = openProfileVerifier(options.profile ?? 'standard', secret, options.headers)
  if (check === undefined) throw new TypeError('The secret must be whsec_ followed by base64, or an ed25519 key.')
  const problem = check({ headers, body: typeof body === 'string' ? Buffer.from(body) : body }, systemClock.now())
  if (problem !== undefined) throw new SignatureError(`The webhook is not genuine: ${problem}.`)
}
