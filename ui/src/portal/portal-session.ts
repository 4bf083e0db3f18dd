import { signal } from '@preact/signals'
import { ApiError, sendAlways, signedOut } from '../api/call.ts'
import { loadSession, session, signInWithKey } from '../session.ts'

/** A portal link: an application, and a token for it. */
export interface PortalLink {
  readonly app: string
  readonly token: string
}

/** A link to another application than the one that this browser shows. It waits for a press. */
export const offered = signal<PortalLink | undefined>(undefined)

/** Whether a link was refused. */
export const isRefused = signal(false)

/** The session of the portal, beside that of the dashboard. */
const portalHeaders = { 'sluice-session': 'portal' }

/** Pages of another site keep cookies away from a frame, so a framed portal works with the token, in memory. */
const isFramed = window.self !== window.top

/** Takes the link of the address bar, if there is one, and asks the server who this is. */
export async function startPortalSession(): Promise<void> {
  const link = takeLink()
  offered.value = undefined
  isRefused.value = false
  sendAlways(portalHeaders)
  if (link !== undefined && isFramed) return useLink(link)
  await loadSession()
  const current = session.value
  if (link === undefined) return
  // A link of a stranger must not put the reader into the stranger's application unnoticed.
  if (current.state === 'in' && current.access.appId !== link.app) offered.value = link
  else await useLink(link)
}

/** Opens the application of a link. */
export async function useLink({ token }: PortalLink): Promise<void> {
  // Nothing of the application before may be asked for in the name of this one.
  session.value = { state: 'unknown' }
  offered.value = undefined
  try {
    if (isFramed) {
      sendAlways({ ...portalHeaders, authorization: `Bearer ${token}` })
      await loadSession()
    } else {
      await signInWithKey(token)
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    if (error.status === 0) session.value = { state: 'unreachable', error }
    else session.value = { state: 'out' }
  }
  isRefused.value = session.value.state === 'out'
  signedOut.value = false
}

/** The token travels behind the #, which no server sees. The address bar and the history do not keep it. */
function takeLink(): PortalLink | undefined {
  const given = new URLSearchParams(location.hash.slice(1))
  const [app, token] = [given.get('app'), given.get('token')]
  if (!app || !token) return undefined
  history.replaceState(null, '', location.pathname + location.search)
  return { app, token }
}

/** The application of the session. */
export function ownApp(): string {
  return session.value.state === 'in' ? (session.value.access.appId ?? '') : ''
}

/** Whether the portal is a part of another page, which says itself whose it is. */
export const isPart = isFramed
