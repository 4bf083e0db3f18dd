import { type Static, Type } from 'typebox'
import { AppError, noSuch } from '../../domain/app-error.ts'
import type { Application } from '../../domain/endpoint.ts'
import {
  admin,
  attempt,
  type Caller,
  capabilities,
  changeSecret,
  endSession,
  isReadOnly,
  manage,
  mayCall,
  type Need,
  ownAccess,
  publish,
  view,
  viewSecret,
} from '../access.ts'
import { fixedCaller, hashApiKey, makeAppToken } from '../auth.ts'
import { flag, integer, maybe, metadataProblems, namePattern, nullable, text } from '../fields.ts'
import type { Parts } from '../parts.ts'
import { type Incoming, type Noun, type Out, route } from '../route.ts'
import { refuseIf } from '../validate.ts'
import { ApplicationIn, toNewApplication } from './application-schema.ts'

const week = 7 * 24 * 3600
const defaultExpirySeconds = 3600
const sessionId = Type.String({ minLength: 1, maxLength: 256 })

export const AppPortalAccessIn = Type.Object({
  application: maybe(
    ApplicationIn,
    'Creates the application with this under the uid in the path, if it does not exist.',
  ),
  capabilities: maybe(
    Type.Array(Type.Enum([...capabilities]), {
      minItems: 1,
      uniqueItems: true,
      description: "Capabilities of the token, by Svix's names; everything in its application by default.",
    }),
  ),
  readOnly: maybe(flag('Read-only: the same as the one capability `ViewBase`.')),
  expiry: maybe(integer(60, week), 'Seconds from now.'),
  sessionId: maybe(sessionId, 'Name by which this token can be ended, together with others.'),
  featureFlags: Type.Optional(
    Type.Array(Type.String({ maxLength: 256, pattern: namePattern }), {
      maxItems: 100,
      description: 'The token sees event types without feature flags, and those with one of these.',
    }),
  ),
})

export const AppPortalAccessOut = Type.Object({
  url: text('Link to the portal; the token follows the `#`.'),
  token: text('Token in the link.'),
})

const ApplicationTokenExpireIn = Type.Object({
  expiry: maybe(integer(0, week), 'Seconds from now.'),
  sessionIds: Type.Optional(Type.Array(sessionId, { maxItems: 1000, description: 'Only tokens of these sessions.' })),
})

export const AccessOut = Type.Object({
  id: text('Id of the key or token.'),
  appId: nullable(text('Application of the token; null for all.')),
  scopes: Type.Array(Type.String(), { description: 'Scopes of an API key; none for a portal token.' }),
  capabilities: nullable(
    Type.Array(Type.String(), { description: 'Capabilities of a portal token; null for an API key.' }),
  ),
  readOnly: flag('Whether the token is read-only.'),
  permissions: Type.Object(
    {
      manageEndpoints: flag('Create, change, pause and delete endpoints.'),
      viewSecrets: flag('See the secrets of endpoints.'),
      changeSecrets: flag('Rotate the secrets of endpoints.'),
      sendAgain: flag('Send messages again, and send examples.'),
      publish: flag('Publish messages.'),
      administer: flag('Everything else in all applications: applications, keys, event types, sessions.'),
    },
    { description: 'Operations that it permits, so that a page offers no other.' },
  ),
})

export function toAccessOut(caller: Caller): Out<typeof AccessOut> {
  const { id, app, scopes, capabilities: granted } = caller
  const may = (need: Need) => mayCall(caller, need, true)
  const readOnly = granted === undefined ? !scopes.has('admin') && !scopes.has('publish') : isReadOnly(granted)
  return {
    id,
    appId: app?.id ?? null,
    scopes: [...scopes],
    capabilities: granted === undefined ? null : [...granted],
    readOnly,
    permissions: {
      manageEndpoints: may(manage),
      viewSecrets: may(viewSecret),
      changeSecrets: may(changeSecret),
      sendAgain: may(attempt),
      publish: may(publish),
      administer: mayCall(caller, admin, false),
    },
  }
}

/** Makes a token for the portal of an application, and the link that carries it. */
export async function letIn(
  { store, randomText, publicUrl }: Parts,
  { caller, protocol, host }: Incoming,
  app: Application,
  input: Static<typeof AppPortalAccessIn>,
): Promise<Out<typeof AppPortalAccessOut>> {
  const token = makeAppToken(randomText)
  await store.createAppToken({
    app: app.key,
    hash: hashApiKey(token),
    capabilities: input.readOnly === true ? ['ViewBase'] : (input.capabilities ?? capabilities),
    featureFlags: input.featureFlags ?? [],
    sessionId: input.sessionId ?? null,
    // The key of the settings has no row; the tokens it makes end by themselves or with expire-all.
    madeBy: caller?.id === fixedCaller.id ? null : (caller?.key ?? null),
    expiresInMs: (input.expiry ?? defaultExpirySeconds) * 1000,
  })
  // Behind the #, which browsers keep to themselves: it is in no log and in no Referer.
  return { url: `${publicUrl ?? `${protocol}://${host}`}/portal#app=${app.id}&token=${token}`, token }
}

export const authentication = {
  tag: 'Authentication',
  description: 'Tokens for the portal of one application.',
  schemas: { AppPortalAccessIn, AppPortalAccessOut, ApplicationTokenExpireIn, AccessOut },
  routes: [
    route('POST /auth/app-portal-access/:app', admin, {
      id: 'v1.authentication.app-portal-access',
      summary: 'Make a link to the portal of an application',
      description: 'The token works for this application alone, for an hour unless `expiry` says otherwise.',
      body: AppPortalAccessIn,
      answers: { 200: AppPortalAccessOut },
      answersSecret: true,
      lookup: 'upsert',
      handle: async ({ app, params, body, request }, parts) => {
        const { application } = body
        refuseIf(metadataProblems(application?.metadata))
        if (app !== undefined) return letIn(parts, request, app, body)
        if (application == null) throw noSuch('application', params.app)
        const made = toNewApplication({ ...application, uid: application.uid ?? params.app })
        return letIn(parts, request, await parts.store.createApplication(made), body)
      },
    }),
    route('POST /auth/dashboard-access/:app', admin, {
      id: 'v1.authentication.dashboard-access',
      summary: 'Make a link to the portal of an application (older path)',
      answers: { 200: AppPortalAccessOut },
      answersSecret: true,
      handle: ({ app, request }, parts) => letIn(parts, request, app, {}),
    }),
    route('POST /auth/app/:app/expire-all', admin, {
      id: 'v1.authentication.expire-all',
      summary: 'End all tokens of an application, or those of some sessions',
      body: ApplicationTokenExpireIn,
      answers: { 204: null },
      handle: async ({ app, body: { expiry, sessionIds = [] } }, { store, auth }) => {
        await store.expireAppTokens(app.key, sessionIds.length === 0 ? null : sessionIds, (expiry ?? 0) * 1000)
        auth.forget()
      },
    }),
    route('GET /auth/access', ownAccess, {
      id: 'v1.authentication.access',
      summary: 'Get what the key or token of this request may do',
      answers: { 200: AccessOut },
      handle: ({ request: { caller } }) => toAccessOut(caller ?? fixedCaller),
    }),
    route('POST /auth/logout', endSession, {
      id: 'v1.authentication.logout',
      summary: 'End the token of this request',
      answers: { 204: null },
      handle: async ({ request: { caller } }, { store, auth }) => {
        if (caller?.capabilities === undefined) {
          throw new AppError(
            'insufficient_access',
            'Only an application token can be logged out; revoke a key instead.',
          )
        }
        await store.endAppToken(caller.key)
        auth.forget()
      },
    }),
  ],
} satisfies Noun

/** Large enough for a sharp logo, small enough to come with every page. */
const longestLogo = 48 * 1024
/** Images alone. A page shows it as an image, in which an SVG runs no script and loads nothing. */
const logoPattern = '^data:image/(png|jpeg|gif|webp|svg\\+xml);base64,[A-Za-z0-9+/]+={0,2}$'

const PortalLookIn = Type.Object({
  name: maybe(
    Type.String({
      minLength: 1,
      maxLength: 100,
      description: "Heading of the portal; the application's name by default.",
    }),
  ),
  logo: maybe(
    Type.String({
      maxLength: longestLogo,
      pattern: logoPattern,
      description: 'Logo as a `data:` URL with base64: PNG, JPEG, GIF, WebP or SVG, up to 48 KiB. Null for none.',
    }),
  ),
  color: maybe(
    Type.String({ pattern: '^#[0-9a-fA-F]{6}$', description: 'Colour of buttons and links, such as `#3b5bdb`.' }),
  ),
})

const PortalLookOut = Type.Object({
  name: text("Heading of the portal; the application's name unless another is set."),
  logo: nullable(text('Logo as a `data:` URL.')),
  color: nullable(text('Colour of buttons and links, such as `#3b5bdb`.')),
})

export const portal: Noun = {
  tag: 'Portal',
  description: "The look of an application's portal.",
  schemas: { PortalLookIn, PortalLookOut },
  routes: [
    route('GET /app/:app/portal', view, {
      id: 'v1.portal.get',
      summary: "Get the look of an application's portal",
      answers: { 200: PortalLookOut },
      handle: async ({ app }, { store }) => {
        const look = await store.findPortalLook(app.key)
        return { name: look?.name ?? app.name, logo: look?.logo ?? null, color: look?.color ?? null }
      },
    }),
    route('PUT /app/:app/portal', admin, {
      id: 'v1.portal.set',
      summary: "Set the look of an application's portal",
      description: 'Replaces the whole look: a field that is left out is unset.',
      body: PortalLookIn,
      answers: { 200: PortalLookOut },
      handle: async ({ app, body: { name = null, logo = null, color = null } }, { store }) => {
        if (!(await store.setPortalLook(app.key, { name, logo, color }))) throw noSuch('application', app.id)
        return { name: name ?? app.name, logo, color }
      },
    }),
  ],
}
