import { isObject } from '../domain/json-object.ts'

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
  /** When the fetch began that brought the keys. */
  keysAt: number
  freshUntil: number
  lastFetchAt: number
  /** Whether the last fetch failed. */
  failing: boolean
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
   * The keys at a URL that may have signed a token with this key id. Undefined when that cannot be known now: no keys could
   * be fetched, or none has the key id and the pause before the next fetch is not over. Stale keys serve as long as their
   * server does not answer.
   */
  async keysFor(url: string, keyId: string | undefined, nowMs: number): Promise<readonly PublicKey[] | undefined> {
    const set = this.#open(url)
    const found = () => (set.keys === undefined ? [] : matching(set.keys, keyId))
    if (nowMs < set.freshUntil && found().length > 0) return found()
    const refreshed = this.#refresh(url, set, nowMs)
    // Each request would wait for a server that hangs, so only the first fetch of an outage is waited for.
    if (!set.failing || found().length === 0) await refreshed
    return found().length > 0 || set.keysAt >= nowMs ? found() : undefined
  }

  #open(url: string): KeySet {
    const known = this.#sets.get(url)
    const set = known ?? {
      ...{ keys: undefined, keysAt: -Infinity, freshUntil: -Infinity, lastFetchAt: -Infinity },
      ...{ failing: false, underway: undefined },
    }
    // A Map keeps the order of insertion: the set that was asked for longest ago comes first, and goes.
    this.#sets.delete(url)
    this.#sets.set(url, set)
    if (this.#sets.size > setsLimit) this.#sets.delete(this.#sets.keys().next().value as string)
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

  /** Never rejects. While the server of the keys fails, the keys of before stay, and a request after the pause tries again. */
  async #load(url: string, set: KeySet, nowMs: number): Promise<void> {
    const { body, cacheControl } = (await this.#fetch(url).catch(() => undefined)) ?? {}
    const isRead = body !== undefined && body.length <= keySetBytesLimit
    const keys = isRead ? readKeySet(Buffer.from(body).toString('utf8')) : undefined
    set.failing = keys === undefined
    if (keys === undefined) return
    set.keys = keys
    set.keysAt = nowMs
    set.freshUntil = nowMs + Math.min(mostMs, Math.max(leastMs, maxAgeMs(cacheControl) ?? usualMs))
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
