import { AppError } from '../domain/app-error.ts'
import type { RandomText } from '../domain/ids.ts'
import type { WebSession, WebSessionOwner } from '../store/access.ts'
import type { Store } from '../store/store.ts'
import type { Caller } from './access.ts'
import { fixedCaller, hashApiKey, makeLinkToken, makeSessionToken } from './auth.ts'
import { refuseForeignOrigin, sessionToken } from './browser-session.ts'
import type { Parts } from './parts.ts'
import type { Incoming } from './route.ts'

/** How long a sign-in link works. */
export const linkLifetimeMs = 10 * 60_000
const longestUserAgent = 256

export interface SignedIn {
  readonly session: WebSession
  /** The text of the cookie. */
  readonly token: string
  readonly lifetimeMs: number
}

/** Starts a session for the key, token or link of the request. A session that the browser had before ends. */
export async function signIn(request: Incoming, caller: Caller, parts: Parts): Promise<SignedIn> {
  const { store, clock, auth, publicUrl, limits, randomText } = parts
  refuseForeignOrigin(request, publicUrl)
  if (caller.session !== undefined) {
    throw new AppError('insufficient_access', 'A session cannot start another. Sign in with a key, token or link.')
  }
  const owner = ownerOf(caller, parts)
  if (caller.signInLink !== undefined && !(await store.useSignInLink(caller.signInLink))) {
    throw new AppError('authentication_failed', 'The sign-in link was used before. Make a new one: sluice dashboard.')
  }
  const before = sessionToken(request, publicUrl, 'appToken' in owner ? 'portal' : 'dashboard')
  const old = before === undefined ? undefined : await store.findWebSession(hashApiKey(before))
  if (old !== undefined) await store.endWebSession(old.session.id, null)
  // A fresh token each time: a token from before the sign-in is worth nothing after it.
  const token = makeSessionToken(randomText)
  const leftMs = caller.expiresAt == null ? Number.POSITIVE_INFINITY : caller.expiresAt - clock.now()
  const lifetimeMs = Math.max(1000, Math.min(limits.sessionLifetime, leftMs))
  const session = await store.createWebSession({
    hash: hashApiKey(token),
    owner,
    expiresInMs: lifetimeMs,
    userAgent: visible(request.headers['user-agent']),
    address: request.address ?? null,
  })
  auth.forget()
  return { session, token, lifetimeMs }
}

/** The key or token that a caller's sessions belong to. */
export function ownerOf(caller: Caller, { adminKey }: Pick<Parts, 'adminKey'>): WebSessionOwner {
  if (caller.capabilities !== undefined) return { appToken: caller.key }
  if (caller.id !== fixedCaller.id) return { apiKey: caller.key }
  if (adminKey === null)
    throw new AppError('insufficient_access', 'A session belongs to a key, and this call has none.')
  return { adminHash: hashApiKey(adminKey) }
}

/** Makes a link that signs in once. Its token stands behind the #, which browsers keep to themselves. */
export async function makeSignInLink(
  { store, randomText }: { readonly store: Pick<Store, 'createSignInLink'>; readonly randomText: RandomText },
  owner: WebSessionOwner,
  url: string,
): Promise<string> {
  const token = makeLinkToken(randomText)
  await store.createSignInLink({ hash: hashApiKey(token), owner, expiresInMs: linkLifetimeMs })
  return `${url}/#signin=${token}`
}

/** A header as a list may show it. */
function visible(text: string | undefined): string | null {
  const shown = text?.replace(/[^\x20-\x7e]/g, '').slice(0, longestUserAgent)
  return shown === undefined || shown === '' ? null : shown
}
