import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { AppError, noSuch } from '../domain/app-error.ts'
import type { SteadyMs } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import {
  type ApiKey,
  type AppToken,
  noteUseEveryMs,
  type OwnedWebSession,
  type WebSessionOwner,
} from '../features/access/store.ts'
import { type BrowserRequest, refuseForgery, sessionToken } from '../features/sessions/browser-service.ts'
import { type Store, StoreTrouble } from '../store/store.ts'
import { type Caller, mayCall, type Need, refusalOf } from './access.ts'
import { FailureLimit, putLast } from './caller-limits.ts'
import type { ServiceDeps } from './services.ts'

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const randomLength = 30 // 178 bits
const checksumLength = 6 // 62^6 > 2^32

/** The hash of a key that the store keeps. Keys are random, so a fast hash is safe. */
export function hashApiKey(key: string): Buffer {
  return Buffer.from(digestOf(key), 'latin1')
}

/** The same hash as a text, which every request needs: Node makes one in 0.4 µs, and a buffer in 1.2 µs. */
function digestOf(key: string): string {
  return hash('sha256', key, 'binary')
}

/** The prefixes of an API key, a token for the portal of an application, a session's cookie, and a sign-in link. */
type Prefix = 'sk' | 'appsk' | 'websess' | 'signin'

/**
 * Makes a key or token: its prefix, 30 random characters, and their CRC-32 in six. The prefix lets secret scanners find a
 * leaked key; the checksum finds a mistyped key without asking the store.
 */
export function makeToken(prefix: Prefix, randomText: RandomText): string {
  const random = randomText(randomLength)
  return `${prefix}_${random}${checksum(random)}`
}

/** Whether a text can be a token that `makeToken` made. */
export function isMade(prefix: Prefix, text: string): boolean {
  if (!text.startsWith(`${prefix}_`)) return false
  const match = /^([0-9A-Za-z]{30})([0-9A-Za-z]{6})$/.exec(text.slice(prefix.length + 1))
  return match !== null && checksum(match[1] as string) === match[2]
}

function checksum(text: string): string {
  let rest = crc32(text)
  let encoded = ''
  for (let i = 0; i < checksumLength; i++) {
    encoded = digits[rest % 62] + encoded
    rest = Math.floor(rest / 62)
  }
  return encoded
}

/** How long a sign-in link works. */
export const linkLifetimeMs = 10 * 60_000

/** Makes a link that signs in once. Its token stands behind the #, which browsers keep to themselves. */
export async function makeSignInLink(
  { store, randomText }: { readonly store: Pick<Store, 'createSignInLink'>; readonly randomText: RandomText },
  owner: WebSessionOwner,
  url: string,
): Promise<string> {
  const token = makeToken('signin', randomText)
  await store.createSignInLink({ hash: hashApiKey(token), owner, expiresInMs: linkLifetimeMs })
  return `${url}/#signin=${token}`
}

/** A request that asks to be admitted. Admission sets `caller`, and the id of the caller's own application in `params`. */
interface Applicant extends BrowserRequest {
  readonly params: unknown
  /** The address of the client; undefined after it reset its connection. */
  readonly address: string | undefined
  caller: Caller | null
}

interface Verdict {
  /** Undefined for a key that is refused. */
  readonly caller: Caller | undefined
  readonly until: SteadyMs
}

/** How long a verdict is remembered: the longest time until a new key works, or a revoked key stops. */
const believedForMs = 1000
const remembered = 1024

/** The caller with the key of the settings. */
export const fixedCaller: Caller = {
  id: 'fixed',
  key: 0,
  scopes: new Set(['admin']),
  capabilities: undefined,
  app: null,
}

const always: Verdict = { caller: fixedCaller, until: Number.POSITIVE_INFINITY }

/**
 * The fixed admin key of the settings. Its old name, `apiKey`, gives the variable that clients keep their keys in: a key
 * that this store made, valid or not, and a portal token belong to a client and never become the admin key.
 */
export async function fixedAdminKey(
  { adminKey, apiKey }: { readonly adminKey: string | null; readonly apiKey: string | null },
  store: Pick<Store, 'knowsApiKey'>,
): Promise<string | null> {
  if (adminKey !== null || apiKey === null) return adminKey
  return isMade('appsk', apiKey) || (await store.knowsApiKey(hashApiKey(apiKey))) ? null : apiKey
}

type AuthDeps = Pick<ServiceDeps, 'store' | 'clock' | 'adminKey' | 'publicUrl' | 'onBug'>

/**
 * Decides which callers may use the API, and for what. Verdicts are remembered by the SHA-256 of the presented key: looking a
 * digest up takes no longer for a key that is nearly right, and a digest cannot be used as a key.
 */
export class Authenticator {
  readonly #deps: AuthDeps
  readonly #fixed: string | undefined
  readonly #failures = new FailureLimit()
  /** Oldest first. */
  readonly #verdicts = new Map<string, Verdict>()
  readonly #listeners = new Set<() => void>()

  constructor(deps: AuthDeps) {
    this.#deps = deps
    this.#fixed = deps.adminKey === null ? undefined : digestOf(deps.adminKey)
  }

  /**
   * Throws or rejects with AppError unless the caller may have what the route needs. Answers at once, without a promise,
   * when the key is remembered.
   */
  admit(request: Applicant, need: Need): Promise<void> | undefined {
    const text = this.#presented(request)
    if (text === undefined) throw this.#refusal(request, 'An API key is required.')
    const digest = digestOf(text)
    const known = this.#known(digest)
    if (known === undefined) return this.#find(text, digest).then((caller) => this.#permit(request, caller, need))
    this.#permit(request, known.caller, need)
    return undefined
  }

  /** The caller of a request that anyone may make; undefined without a key, token or session that works. */
  async identify(request: Omit<Applicant, 'params' | 'caller'>): Promise<Caller | undefined> {
    const text = this.#presented(request)
    if (text === undefined) return undefined
    const digest = digestOf(text)
    const known = this.#known(digest)
    const caller = known === undefined ? await this.#find(text, digest) : known.caller
    if (caller === undefined) {
      const refusal = this.#refusal(request, '')
      if (refusal.code === 'rate_limited') throw refusal
    }
    return caller
  }

  /** Drops every verdict: a key, token or session has just been ended, and must not work for another moment. */
  forget(): void {
    this.#verdicts.clear()
    for (const listener of this.#listeners) listener()
  }

  /** Calls back after each `forget`, until the returned function is called. */
  onForget(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * The key or token that a request presents: in its header, or else in the cookie of its session. A session works in its
   * cookie alone, and nothing else works there.
   */
  #presented(request: BrowserRequest): string | undefined {
    const header = request.headers.authorization
    if (header !== undefined) {
      const text = /^bearer /i.test(header) ? header.slice('bearer '.length).trim() : undefined
      return text !== undefined && isMade('websess', text) ? undefined : text
    }
    const text = sessionToken(request, this.#deps.publicUrl)
    if (text === undefined || !isMade('websess', text)) return undefined
    refuseForgery(request, text, this.#deps.publicUrl)
    return text
  }

  #known(digest: string): Verdict | undefined {
    const verdict = digest === this.#fixed ? always : this.#verdicts.get(digest)
    return verdict === undefined || verdict.until <= this.#deps.clock.steady() ? undefined : verdict
  }

  async #find(text: string, digest: string): Promise<Caller | undefined> {
    const caller = await this.#ask(text, Buffer.from(digest, 'latin1'))
    putLast(this.#verdicts, digest, { caller, until: this.#deps.clock.steady() + believedForMs }, remembered)
    return caller
  }

  async #ask(text: string, hash: Buffer): Promise<Caller | undefined> {
    const { store } = this.#deps
    if (isMade('sk', text)) return this.#ofKey(await store.findApiKey(hash))
    if (isMade('appsk', text)) return this.#ofToken(await store.findAppToken(hash))
    if (isMade('signin', text)) {
      const owner = this.#ofOwner(await store.findSignInLink(hash))
      return owner && { ...owner, signInLink: hash }
    }
    if (!isMade('websess', text)) return undefined
    const found = await store.findWebSession(hash)
    const owner = this.#ofOwner(found)
    if (found === undefined || owner === undefined) return undefined
    this.#noteUse(found.session.lastUsedAt, () => store.noteWebSessionUse(found.session.key))
    return { ...owner, session: found.session }
  }

  #ofOwner(found: OwnedWebSession | undefined): Caller | undefined {
    if (found === undefined) return undefined
    const { owner } = found
    if ('apiKey' in owner) return this.#ofKey(owner.apiKey)
    if ('appToken' in owner) return this.#ofToken(owner.appToken)
    // The admin key of the settings may have changed since.
    return Buffer.from(owner.adminHash).toString('latin1') === this.#fixed ? fixedCaller : undefined
  }

  #ofKey(found: ApiKey | undefined): Caller | undefined {
    if (found === undefined) return undefined
    this.#noteUse(found.lastUsedAt, () => this.#deps.store.noteApiKeyUse(found.key))
    return { ...found, scopes: new Set(found.scopes), capabilities: undefined }
  }

  #ofToken(found: AppToken | undefined): Caller | undefined {
    if (found === undefined) return undefined
    const featureFlags = found.featureFlags && new Set(found.featureFlags)
    return { ...found, scopes: new Set<string>(), capabilities: new Set(found.capabilities), featureFlags }
  }

  /** Notes the use in the background, once a minute at most. */
  #noteUse(lastUsedAt: number | null, note: () => Promise<void>): void {
    const { clock, onBug } = this.#deps
    if (lastUsedAt !== null && clock.now() - lastUsedAt < noteUseEveryMs) return
    note().catch((error: unknown) => {
      // The requests that need the store report its trouble.
      if (!(error instanceof StoreTrouble)) onBug(error)
    })
  }

  #permit(request: Applicant, caller: Caller | undefined, need: Need): void {
    if (caller === undefined) {
      const isSession = request.headers.authorization === undefined
      throw this.#refusal(request, isSession ? 'The session has ended. Sign in again.' : 'The API key is not valid.')
    }
    const params = request.params as { app?: string }
    if (!mayCall(caller, need, params.app !== undefined)) {
      throw new AppError('insufficient_access', refusalOf(caller, need))
    }
    request.caller = caller
    if (caller.app === null || params.app === undefined) return
    // Another application gets the same answer as an unknown one.
    if (params.app !== caller.app.id && params.app !== caller.app.uid) {
      throw noSuch('application', params.app)
    }
    // From here on by its id, which stays its own: a uid may have been given to another application a moment ago.
    params.app = caller.app.id
  }

  #refusal({ address }: Pick<Applicant, 'address'>, message: string): AppError {
    // Without an address the client has already reset its connection and learns nothing from the answer.
    const waitMs = address === undefined ? 0 : this.#failures.note(address, this.#deps.clock.steady())
    if (waitMs === 0) return new AppError('authentication_failed', message)
    return new AppError('rate_limited', 'Too many requests with wrong keys came from this address.', [], {
      retryAfterMs: waitMs,
    })
  }
}
