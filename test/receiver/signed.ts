import type { SignatureHeaders, SignatureProfile } from '../../receiver/src/index.ts'
import { signerOf, signingBy } from '../../src/wire/profile.ts'

export const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
export const olderSecret = `whsec_${Buffer.alloc(24, 8).toString('base64')}`
export const privateKey = `whsk_${Buffer.alloc(32, 9).toString('base64')}`
export const nowMs = 1_700_000_000_000

export interface SignedOptions {
  readonly profile?: SignatureProfile
  readonly headers?: SignatureHeaders
  /** The newest first. */
  readonly secrets?: readonly string[]
  readonly at?: number
  readonly id?: string
}

/** A request as Sluice signs it, by the code that signs deliveries. */
export function signed(body: string | Uint8Array, options: SignedOptions = {}) {
  const { profile = 'standard', headers = 'webhook', secrets = [secret], at = nowMs, id = 'msg_1' } = options
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const signers = secrets.map((each) => {
    const sign = signerOf(profile, each)
    if (sign === undefined) throw new TypeError(`${each} cannot sign ${profile}`)
    return { sign, expiresAt: Infinity }
  })
  const signing = signingBy(profile, signers, headers)
  const list: string[] = []
  signing.values(list, 1, { id, body: bytes }, String(Math.floor(at / 1000)), at)
  const record = Object.fromEntries(signing.names.map((name, i) => [name, list[2 * i + 1] as string]))
  return { headers: record as Record<string, string>, body: bytes }
}
