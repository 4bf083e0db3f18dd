import type { encodings } from './hmac.ts'
import type { PublicKey } from './key-sets.ts'

export const sharedAlgorithms = ['HS256', 'HS384', 'HS512'] as const
export const publicAlgorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const

/** How a source verifies its tokens. This file loads no jose, so the table of providers can be read without it. */
export interface JwtScheme {
  /** The header of the token, in lower case. `Bearer ` in front of it is allowed. */
  readonly header: string
  /** Where the public keys are; null for shared secrets. */
  readonly keys: { readonly url: string } | { readonly inline: readonly PublicKey[] } | null
  readonly issuer: string | null
  readonly audience: string | null
  /** None lists all that fit the kind of keys. */
  readonly algorithms: readonly string[] | null
  /** The clock of the sender may differ by this much. */
  readonly toleranceSeconds: number
  readonly maxAgeSeconds: number | null
  /** The claim that holds the SHA-256 of the body. */
  readonly bodyHashClaim: string | null
  readonly bodyHashEncoding: (typeof encodings)[number]
}
