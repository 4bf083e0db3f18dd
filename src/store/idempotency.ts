import { SealError, type Vault } from './vault.ts'

/**
 * What may happen only once for a while: a request under its Idempotency-Key, a publish within its application's dedupe
 * window. Hashes are the caller's; the store only compares them.
 */
export interface Idempotency {
  /**
   * Takes a hash for a request that is about to be carried out, for `reserveMs` at most: whoever dies with it leaves it
   * to expire. Whatever else the answer is, nothing was taken.
   */
  reserve(once: Once, reserveMs: number): Promise<Reservation>
  /** Keeps the answer under a hash reserved before, for as long as `once` says. */
  complete(once: Once, answer: KeptAnswer): Promise<void>
  /** Frees a hash reserved before, because the request was refused. An answer under it stays. */
  abandon(once: Once): Promise<void>
  /** Removes up to `limit` of what has expired; answers how many that were. */
  sweepIdempotency(limit: number): Promise<number>
}

/** A hash that can be taken once within `ttlMs`. Asked for again with another fingerprint, it is a mismatch. */
export interface Once {
  readonly hash: string
  readonly fingerprint: string
  readonly ttlMs: number
}

export interface KeptAnswer {
  readonly status: number
  readonly body: Uint8Array
}

export type Reservation =
  | { readonly state: 'reserved' }
  | { readonly state: 'in_flight' }
  | { readonly state: 'mismatch' }
  | { readonly state: 'answered'; readonly answer: KeptAnswer }

/** An answer as it is stored: sealed, for it may hold a key that is shown once. */
export function sealAnswer(vault: Vault, hash: string, body: Uint8Array): Buffer {
  return Buffer.from(vault.seal(Buffer.from(body).toString('latin1'), placeOf(hash)))
}

/** What a stored answer says. One whose key is gone cannot be given again, and is not to be carried out again either. */
export function openAnswer(vault: Vault, hash: string, status: number, sealed: Uint8Array | null): Reservation {
  try {
    const text = vault.open(Buffer.from(sealed ?? []).toString(), placeOf(hash))
    return { state: 'answered', answer: { status, body: Buffer.from(text, 'latin1') } }
  } catch (error) {
    if (error instanceof SealError) return { state: 'in_flight' }
    throw error
  }
}

function placeOf(hash: string) {
  return { app: 0, endpoint: 0, field: `answer ${hash}` }
}
