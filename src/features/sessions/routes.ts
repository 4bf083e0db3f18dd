import { Type } from 'typebox'
import { AppError, noSuch } from '../../domain/app-error.ts'
import { admin, type Caller, makeLink, mayCall, ownAccess, signIn as signInNeed } from '../../operations/access.ts'
import { fixedCaller, hashApiKey, linkLifetimeMs, makeSignInLink, makeToken } from '../../operations/auth.ts'
import { createdAt, flag, id, instant, iso, isoOrNull, listOf, nullable, text } from '../../operations/fields.ts'
import { byId, PageQuery, paginate } from '../../operations/page.ts'
import { type Incoming, type Noun, type Out, Reply, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import type { PageRequest } from '../../store/store.ts'
import { AccessOut, toAccessOut } from '../access/schemas.ts'
import type { WebSession, WebSessionOwner } from '../access/store.ts'
import { forgeryToken, kindOf, refuseForeignOrigin, sessionCookie, sessionToken } from './browser-service.ts'

const kind = Type.Enum(['dashboard', 'portal'], { description: '`portal` for a session of an application token.' })

const SessionOut = Type.Object({
  sessionId: nullable(text('Id of the session; null for a key or token in the header.')),
  kind,
  name: nullable(text('Name of the API key; null for a portal token and for the admin key of the settings.')),
  expiresAt: nullable(instant('End of the session; null for a key or token in the header.')),
  csrfToken: nullable(text('Token against forgery: changes under the cookie send it in the header `x-sluice-token`.')),
  access: AccessOut,
})

const CurrentSessionOut = Type.Object({
  session: nullable(
    Type.Object(SessionOut.properties, { description: 'The session of the request; null for a caller not signed in.' }),
  ),
})

const WebSessionOut = Type.Object({
  id,
  kind,
  keyId: nullable(text('Id of its key or token; null for the admin key of the settings.')),
  name: nullable(text('Name of its API key.')),
  appId: nullable(text('Application of the session; null for all.')),
  userAgent: nullable(text('Browser that signed in, as it names itself.')),
  address: nullable(text('Address that signed in.')),
  createdAt,
  expiresAt: instant('Time at which it ends by itself.'),
  lastUsedAt: nullable(instant('Time of the last use, accurate to about a minute.')),
  current: flag('Whether it is the session of this request.'),
})

const SignInLinkOut = Type.Object({
  url: text('Link that signs in once; its token follows the `#`.'),
  expiresAt: instant('Time at which the link stops working.'),
})

function toWebSessionOut(session: WebSession, current: WebSession | undefined): Out<typeof WebSessionOut> {
  const { id, kind, ownerId, ownerName, appId, userAgent, address, createdAt, expiresAt, lastUsedAt } = session
  const names = { id, kind, keyId: ownerId, name: ownerName, appId, userAgent, address }
  const times = { createdAt: iso(createdAt), expiresAt: iso(expiresAt), lastUsedAt: isoOrNull(lastUsedAt) }
  return { ...names, ...times, current: id === current?.id }
}

function toSessionOut(
  caller: Caller,
  session: WebSession | undefined,
  token: string | undefined,
): Out<typeof SessionOut> {
  const { signInLink: _used, ...owner } = caller
  return {
    sessionId: session?.id ?? null,
    kind: caller.capabilities === undefined ? 'dashboard' : 'portal',
    name: session?.ownerName ?? null,
    expiresAt: isoOrNull(session?.expiresAt ?? null),
    csrfToken: session === undefined || token === undefined ? null : forgeryToken(token),
    access: toAccessOut(owner),
  }
}

/** The sessions that a caller may see and end: all for an admin, else those of its own key or token. */
function visibleTo(caller: Caller, services: Services): WebSessionOwner | null {
  return mayCall(caller, admin, false) ? null : ownerOf(caller, services)
}

export const sessions = {
  tag: 'Session',
  description: 'Sessions of browsers: a cookie in place of a key.',
  schemas: { SessionOut, CurrentSessionOut, WebSessionOut, SignInLinkOut },
  routes: [
    route('POST /session', signInNeed, {
      id: 'v1.session.create',
      summary: 'Sign in: start a session for the key, portal token or sign-in link in the header',
      description:
        'Sets an HttpOnly cookie. A later request with the cookie alone may do what the key may do; changes also need the csrfToken.',
      answers: { 201: SessionOut },
      answersSecret: true,
      handle: async ({ request }, services) => {
        const caller = request.caller ?? fixedCaller
        const { session, token, lifetimeMs } = await signIn(request, caller, services)
        const cookie = sessionCookie(request, session.kind, services.publicUrl, { token, lifetimeMs })
        return new Reply(201, toSessionOut(caller, session, token), { 'set-cookie': cookie })
      },
    }),
    route('GET /session', 'open', {
      id: 'v1.session.get',
      summary: 'Get the session of this request, and what it may do',
      answers: { 200: CurrentSessionOut },
      handle: async ({ request }, { auth, publicUrl }) => {
        const caller = await auth.identify(request)
        const token = sessionToken(request, publicUrl)
        if (caller !== undefined && caller.signInLink === undefined) {
          return { session: toSessionOut(caller, caller.session, token) }
        }
        const cookie = sessionCookie(request, kindOf(request), publicUrl, undefined)
        return new Reply(200, { session: null }, token === undefined ? {} : { 'set-cookie': cookie })
      },
    }),
    route('DELETE /session', ownAccess, {
      id: 'v1.session.delete',
      summary: 'Sign out: end the session of this request',
      answers: { 204: null },
      handle: async ({ request }, { store, auth, publicUrl }) => {
        const session = request.caller?.session
        if (session === undefined) {
          throw new AppError('insufficient_access', 'The request has no session: it carries a key or token.')
        }
        await store.endWebSession(session.id, null)
        auth.forget()
        return new Reply(204, undefined, { 'set-cookie': sessionCookie(request, session.kind, publicUrl, undefined) })
      },
    }),
    route('GET /auth/session', ownAccess, {
      id: 'v1.session.list',
      summary: 'List sessions',
      description: 'An admin sees all sessions; any other caller those of its own key or token.',
      query: PageQuery,
      answers: { 200: listOf(WebSessionOut) },
      handle: ({ query, request: { caller } }, services) => {
        const owner = visibleTo(caller ?? fixedCaller, services)
        const list = (page: PageRequest) => services.store.listWebSessions(page, owner)
        const toOut = (session: WebSession) => toWebSessionOut(session, caller?.session)
        return paginate(services.clock, query, { ...byId('sess'), list, toOut })
      },
    }),
    route('DELETE /auth/session/:session', ownAccess, {
      id: 'v1.session.end',
      summary: 'End a session',
      answers: { 204: null },
      handle: async ({ params, request: { caller } }, services) => {
        const ended = await services.store.endWebSession(params.session, visibleTo(caller ?? fixedCaller, services))
        if (!ended) throw noSuch('session', params.session)
        services.auth.forget()
      },
    }),
    route('POST /auth/session/end-all', ownAccess, {
      id: 'v1.session.end-all',
      summary: 'End all sessions that the caller sees in the list, except its own',
      answers: { 204: null },
      handle: async ({ request: { caller } }, services) => {
        const owner = visibleTo(caller ?? fixedCaller, services)
        await services.store.endWebSessions(owner, caller?.session?.key ?? null)
        services.auth.forget()
      },
    }),
    route('POST /auth/sign-in-link', makeLink, {
      id: 'v1.session.sign-in-link',
      summary: 'Make a link that signs in once with the key of this request',
      description: 'The link works for ten minutes. Its session may do what the key may do.',
      answers: { 200: SignInLinkOut },
      answersSecret: true,
      handle: async ({ request }, services) => {
        const caller = request.caller ?? fixedCaller
        if (caller.session !== undefined) {
          throw new AppError('insufficient_access', 'A session cannot make a sign-in link; it takes an API key.')
        }
        const base = services.publicUrl ?? `${request.protocol}://${request.host}`
        const expiresAt = iso(services.clock.now() + linkLifetimeMs)
        return { url: await makeSignInLink(services, ownerOf(caller, services), base), expiresAt }
      },
    }),
  ],
} satisfies Noun

const longestUserAgent = 256

/**
 * Starts a session for the key, token or link of the request, whose cookie holds the token. A session that the browser had
 * before ends.
 */
async function signIn(request: Incoming, caller: Caller, services: Services) {
  const { store, clock, auth, publicUrl, limits, randomText } = services
  refuseForeignOrigin(request, publicUrl)
  if (caller.session !== undefined) {
    throw new AppError('insufficient_access', 'A session cannot start another. Sign in with a key, token or link.')
  }
  const owner = ownerOf(caller, services)
  if (caller.signInLink !== undefined && !(await store.useSignInLink(caller.signInLink))) {
    throw new AppError('authentication_failed', 'The sign-in link was used before. Make a new one: sluice dashboard.')
  }
  const before = sessionToken(request, publicUrl, 'appToken' in owner ? 'portal' : 'dashboard')
  const old = before === undefined ? undefined : await store.findWebSession(hashApiKey(before))
  if (old !== undefined) await store.endWebSession(old.session.id, null)
  // A fresh token each time: a token from before the sign-in is worth nothing after it.
  const token = makeToken('websess', randomText)
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
function ownerOf(caller: Caller, { adminKey }: Pick<Services, 'adminKey'>): WebSessionOwner {
  if (caller.capabilities !== undefined) return { appToken: caller.key }
  if (caller.id !== fixedCaller.id) return { apiKey: caller.key }
  if (adminKey === null)
    throw new AppError('insufficient_access', 'A session belongs to a key, and this call has none.')
  return { adminHash: hashApiKey(adminKey) }
}

/** A header as a list may show it. */
function visible(text: string | undefined): string | null {
  const shown = text?.replace(/[^\x20-\x7e]/g, '').slice(0, longestUserAgent)
  return shown === undefined || shown === '' ? null : shown
}
