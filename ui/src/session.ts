import { signal } from '@preact/signals'
import { forgetAnswers } from './api/ask.ts'
import { ApiError, call, send, setForgeryToken, signedOut } from './api/call.ts'
import type { AccessOut } from './api/schema.ts'

/** The caller, and what it may do. Buttons for anything else do not exist. */
export type Session =
  | { readonly state: 'unknown' }
  | { readonly state: 'out'; readonly note?: string }
  | { readonly state: 'unreachable'; readonly error: ApiError }
  | { readonly state: 'in'; readonly access: AccessOut; readonly name: string | null }

export const session = signal<Session>({ state: 'unknown' })

/** Asks the server who this is. */
export async function loadSession(): Promise<void> {
  try {
    const { session: current } = await call('GET /session')
    setForgeryToken(current?.csrfToken ?? undefined)
    session.value = current === null ? { state: 'out' } : { state: 'in', access: current.access, name: current.name }
    signedOut.value = false
    rememberFrame(current !== null)
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    session.value = { state: 'unreachable', error }
  }
  forgetAnswers()
}

/** Whether this browser was signed in when it left: the frame of the pages is then shown before the server answers. */
export function hadFrame(): boolean {
  return localStorage.getItem(frameKey) !== null
}

function rememberFrame(isIn: boolean): void {
  if (isIn) localStorage.setItem(frameKey, '1')
  else localStorage.removeItem(frameKey)
}

const frameKey = 'sluice-frame'

/** Signs in with the link of the address bar, if there is one, and asks the server who this is. */
export async function startSession(): Promise<void> {
  const [, token] = /^#signin=(\w+)$/.exec(location.hash) ?? []
  // First of all: the address bar and the history keep no token.
  if (token !== undefined) history.replaceState(null, '', location.pathname)
  await loadSession()
  // A link never takes the place of a session: it may be a stranger's, sent to make the reader work in another's name.
  if (token === undefined || session.value.state !== 'out') return
  await signInWithKey(token).catch((error: unknown) => {
    if (!(error instanceof ApiError)) throw error
    session.value = { state: 'out', note: 'This link has been used, or has expired.' }
  })
}

/** Starts a session with a key, or with the token of a sign-in link. */
export async function signInWithKey(key: string): Promise<void> {
  await send('POST /session', { bearer: key })
  await loadSession()
}

/** Ends the session. */
export async function signOut(): Promise<void> {
  await call('DELETE /session')
  await loadSession()
}

function access(): AccessOut | undefined {
  return session.value.state === 'in' ? session.value.access : undefined
}

/** Whether the caller may change things of all applications. */
export function isAdmin(): boolean {
  const known = access()
  return known?.appId === null && known.scopes.includes('admin')
}

/** Whether the caller may change endpoints. */
export function mayManage(): boolean {
  return access()?.permissions.manageEndpoints === true
}

export function maySendAgain(): boolean {
  return access()?.permissions.sendAgain === true
}

export function mayViewSecrets(): boolean {
  return access()?.permissions.viewSecrets === true
}

export function mayChangeSecrets(): boolean {
  return access()?.permissions.changeSecrets === true
}
