import { signal } from '@preact/signals'
import { forgetAnswers } from './api/ask.ts'
import { ApiError, call, send, signedOut } from './api/call.ts'
import type { AccessOut } from './api/schema.ts'

/** The caller, and what it may do. Buttons for anything else do not exist. */
export type Session =
  | { readonly state: 'unknown' | 'out' }
  | { readonly state: 'unreachable'; readonly error: ApiError }
  | { readonly state: 'in'; readonly access: AccessOut }

export const session = signal<Session>({ state: 'unknown' })

/** Asks the server who this is. */
export async function loadSession(): Promise<void> {
  try {
    session.value = { state: 'in', access: await call('GET /auth/access') }
    signedOut.value = false
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) session.value = { state: 'out' }
    else if (error instanceof ApiError) session.value = { state: 'unreachable', error }
    else throw error
  }
  forgetAnswers()
}

/** Signs in with the link of the address bar, if there is one, and asks the server who this is. */
export async function startSession(): Promise<void> {
  await loadSession()
}

export async function signInWithKey(key: string): Promise<void> {
  await send('POST /session', { body: { key } })
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
