import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { apiRoot } from '../../domain/api.ts'
import { AppError } from '../../domain/app-error.ts'

/**
 * A browser's session as a request carries it: a cookie, and for changes a token against forgery. The dashboard and the
 * portal have a cookie each, so that an operator who opens a portal link stays signed in.
 */
type SessionKind = 'dashboard' | 'portal'

/** The header that carries the token against forgery. */
const forgeryHeader = 'x-sluice-token'
/** The header that chooses the session of a request: `portal`, or the dashboard's without it. */
const kindHeader = 'sluice-session'

/** The parts of a request that say which session it belongs to and which page sent it. */
export interface BrowserRequest {
  readonly method: string
  readonly headers: IncomingHttpHeaders
  readonly host: string
  readonly query: unknown
}

/** The session that a request chooses. An EventSource sends no headers, so a query can choose, too. */
export function kindOf({ headers, query }: BrowserRequest): SessionKind {
  const asked = headers[kindHeader] ?? (query as { session?: unknown } | undefined)?.session
  return asked === 'portal' ? 'portal' : 'dashboard'
}

/**
 * The names of a session's cookie, best first. Browsers take a `__Host-` cookie over https only, from this very host only,
 * and no other host can set it. Over plain http cookies of all ports of a host are one, so the name has the port.
 */
function cookieNames(kind: SessionKind, host: string, publicUrl: string | null): readonly string[] {
  const secure = `__Host-sluice-${kind}`
  if (publicUrl?.startsWith('https:')) return [secure]
  const [, port = '80'] = /:(\d{1,5})$/.exec(host) ?? []
  return [secure, `sluice-${kind}-${port}`]
}

/** The token of the session cookie, of the session that the request chooses; undefined without one. */
export function sessionToken(
  request: BrowserRequest,
  publicUrl: string | null,
  kind: SessionKind = kindOf(request),
): string | undefined {
  const { cookie } = request.headers
  if (cookie === undefined) return undefined
  for (const name of cookieNames(kind, request.host, publicUrl)) {
    const found = cookie.split(';').find((each) => each.trimStart().startsWith(`${name}=`))
    if (found !== undefined) return found.slice(found.indexOf('=') + 1).trim()
  }
  return undefined
}

/** The `Set-Cookie` that starts a session, or ends it when there is no token. */
export function sessionCookie(
  request: BrowserRequest,
  kind: SessionKind,
  publicUrl: string | null,
  session: { readonly token: string; readonly lifetimeMs: number } | undefined,
): string {
  const { origin } = request.headers
  // A proxy that ends TLS speaks http to this server; the page itself knows.
  const isSecure = publicUrl === null ? origin?.startsWith('https:') === true : publicUrl.startsWith('https:')
  const names = cookieNames(kind, request.host, publicUrl)
  const name = isSecure ? names[0] : names.at(-1)
  const seconds = session === undefined ? 0 : Math.max(1, Math.floor(session.lifetimeMs / 1000))
  const attributes = `Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`
  return `${name}=${session?.token ?? ''}; ${attributes}`
}

/** The token against forgery of a session. A page reads it in an answer, which no other origin can read. */
export function forgeryToken(token: string): string {
  return hash('sha256', `forgery:${token}`, 'base64url')
}

/**
 * Refuses a request that a page of another origin made the browser send along with the cookie. `SameSite=Strict` already
 * keeps the cookie from other sites; subdomains and other ports are the same site, and old browsers ignore it.
 */
export function refuseForgery(request: BrowserRequest, token: string, publicUrl: string | null): void {
  refuseForeignOrigin(request, publicUrl)
  if (request.method === 'GET' || request.method === 'HEAD') return
  const given = request.headers[forgeryHeader]
  // Digests: comparing takes the same time wherever the two differ.
  if (typeof given !== 'string' || digest(given) !== digest(forgeryToken(token))) {
    throw new AppError(
      'forgery_suspected',
      `A change under a session cookie needs the header ${forgeryHeader} with the csrfToken of GET ${apiRoot}/session.`,
    )
  }
}

/** Refuses a request of a page that is not served by this server. */
export function refuseForeignOrigin({ headers, host }: BrowserRequest, publicUrl: string | null): void {
  const { origin } = headers
  // Browsers set it, and no page can. Older ones, and those that speak plain http to another machine, leave it out.
  const site = headers['sec-fetch-site']
  if (site === 'same-origin') return
  const isOwn =
    origin === undefined ||
    URL.parse(origin)?.host === host.toLowerCase() ||
    (publicUrl !== null && origin === new URL(publicUrl).origin)
  if (isOwn && (site === undefined || site === 'none')) return
  const sender = isOwn ? `a page of another origin (Sec-Fetch-Site: ${site})` : `a page of ${origin}`
  throw new AppError(
    'forgery_suspected',
    `The request comes from ${sender}. Sessions are for pages of this server; behind a proxy, set publicUrl.`,
  )
}

function digest(text: string): string {
  return hash('sha256', text, 'base64url')
}
