import { isObject } from '../domain/event-type.ts'

/** A set of public keys (JWKS) as its server sent it. */
export interface FetchedKeys {
  readonly body: Uint8Array
  /** The header Cache-Control; none when it is absent. */
  readonly cacheControl?: string | undefined
}

/**
 * Fetches a set of keys: with a time limit, without following redirects, at most `keySetBytesLimit` bytes, and never from
 * a network that is not allowed. Rejects when that fails.
 */
export type FetchKeys = (url: string) => Promise<FetchedKeys>

export const keySetBytesLimit = 65_536
const keysLimit = 64
const [leastMs, usualMs, mostMs] = [60_000, 600_000, 86_400_000]
/** The pause between two fetches of one URL, whatever the reason: an unknown key id, or a failure. */
const pauseMs = 30_000
const setsLimit = 1000

export type PublicKey = Readonly<Record<string, unknown>>

interface KeySet {
  keys: readonly PublicKey[] | undefined
  freshUntil: number
  lastFetchAt: number
  underway: Promise<void> | undefined
}

/** The keys that providers publish, cached. Of one URL, one fetch is under way at a time. */
export class KeySets {
  readonly #fetch: FetchKeys
  readonly #sets = new Map<string, KeySet>()

  constructor(fetch: FetchKeys) {
    this.#fetch = fetch
  }

  /**
   * The keys at a URL that may have signed a token with this key id. Undefined when the keys cannot be had now; stale keys
   * serve as long as their server does not answer.
   */
  async keysFor(url: string, keyId: string | undefined, nowMs: number): Promise<readonly PublicKey[] | undefined> {
    const set = this.#sets.get(url) ?? this.#open(url)
    const hasKey = () => set.keys !== undefined && matching(set.keys, keyId).length > 0
    if (nowMs >= set.freshUntil || !hasKey()) await this.#refresh(url, set, nowMs)
    return set.keys === undefined ? undefined : matching(set.keys, keyId)
  }

  #open(url: string): KeySet {
    const set: KeySet = { keys: undefined, freshUntil: -Infinity, lastFetchAt: -Infinity, underway: undefined }
    // The oldest goes: a Map keeps the order of insertion.
    if (this.#sets.size >= setsLimit) this.#sets.delete(this.#sets.keys().next().value as string)
    this.#sets.set(url, set)
    return set
  }

  #refresh(url: string, set: KeySet, nowMs: number): Promise<void> {
    if (set.underway === undefined) {
      if (Math.abs(nowMs - set.lastFetchAt) < pauseMs) return Promise.resolve()
      set.lastFetchAt = nowMs
      set.underway = this.#load(url, set, nowMs).finally(() => {
        set.underway = undefined
      })
    }
    return set.underway
  }

  async #load(url: string, set: KeySet, nowMs: number): Promise<void> {
    try {
      const { body, cacheControl } = await this.#fetch(url)
      const keys = body.length <= keySetBytesLimit ? readKeySet(Buffer.from(body).toString('utf8')) : undefined
      if (keys === undefined) return
      set.keys = keys
      set.freshUntil = nowMs + Math.min(mostMs, Math.max(leastMs, maxAgeMs(cacheControl) ?? usualMs))
    } catch {
      // The server of the keys fails. The keys of before stay, and the next request after the pause tries again.
    }
  }
}

/** Keys by id; a token without an id may have been signed by each. */
function matching(keys: readonly PublicKey[], keyId: string | undefined): readonly PublicKey[] {
  return keyId === undefined ? keys : keys.filter(({ kid }) => kid === keyId)
}

function maxAgeMs(cacheControl: string | undefined): number | undefined {
  const [, seconds] = /(?:^|[\s,])max-age=(\d{1,9})(?:$|[\s,])/i.exec(cacheControl?.slice(0, 256) ?? '') ?? []
  return seconds === undefined ? undefined : Number(seconds) * 1000
}

const publicKinds = new Set(['RSA', 'EC', 'OKP'])

/**
 * The public keys of a JWKS text, which may hold 64; undefined when the text is none. Shared secrets and private keys are
 * left out: a published key can never be the secret of an HMAC.
 */
export function readKeySet(text: string): readonly PublicKey[] | undefined {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
  const keys = isObject(parsed) ? parsed.keys : undefined
  if (!Array.isArray(keys) || keys.length > keysLimit) return undefined
  return keys.filter(
    (key) => isObject(key) && publicKinds.has(String(key.kty)) && !Object.hasOwn(key, 'd') && key.use !== 'enc',
  )
}
