import { type Static, Type } from 'typebox'
import { AppError, noSuch } from '../../domain/app-error.ts'
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
  scopes,
  viewSecret,
} from '../../operations/access.ts'
import { fixedCaller, hashApiKey, makeToken } from '../../operations/auth.ts'
import {
  closed,
  createdAt,
  described,
  displayName,
  flag,
  id,
  instant,
  integer,
  iso,
  isoOrNull,
  listOf,
  maybe,
  metadataProblems,
  namePattern,
  nullable,
  shortText,
  text,
} from '../../operations/fields.ts'
import { lookUp, newUid } from '../../operations/lookup.ts'
import { byId, PageQuery, paginate } from '../../operations/page.ts'
import type { Parts } from '../../operations/parts.ts'
import { type Incoming, type Noun, type Out, route } from '../../operations/route.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { Store } from '../../store/store.ts'
import { ApplicationIn, toNewApplication } from '../applications/schemas.ts'
import type { Application } from '../endpoints/rules.ts'
import type { ApiKey } from './store.ts'

const week = 7 * 24 * 3600
const defaultExpirySeconds = 3600
const sessionId = shortText(256)

export const AppPortalAccessIn = Type.Object(
  {
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
  },
  closed,
)

export const AppPortalAccessOut = Type.Object({
  url: text('Link to the portal; the token follows the `#`.'),
  token: text('Token in the link.'),
})

const ApplicationTokenExpireIn = Type.Object(
  {
    expiry: maybe(integer(0, week), 'Seconds from now.'),
    sessionIds: Type.Optional(Type.Array(sessionId, { maxItems: 1000, description: 'Only tokens of these sessions.' })),
  },
  closed,
)

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
  const token = makeToken('appsk', randomText)
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
        const uid = application.uid ?? newUid('application', 'app', params.app)
        const made = toNewApplication({ ...application, uid })
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
          const message = 'Only an application token can be logged out; revoke a key instead.'
          throw new AppError('insufficient_access', message)
        }
        await store.endAppToken(caller.key)
        auth.forget()
      },
    }),
  ],
} satisfies Noun

const year = 365 * 24 * 3600
const scopesMeaning = 'Scopes: `admin` for everything, `publish` to publish, `read` to read.'
const name = text('Display name.')

const ApiKeyIn = Type.Object(
  {
    name: described(displayName(256), 'Display name.'),
    scopes: Type.Array(Type.Enum([...scopes]), { minItems: 1, uniqueItems: true, description: scopesMeaning }),
    app: maybe(shortText(256), 'Application that it is limited to, by id or uid; null for all.'),
    appId: maybe(shortText(256), 'The same as `app`, by the name that answers have.'),
    expiresInSeconds: maybe(integer(1, 10 * year), 'Time until it expires; null for never.'),
  },
  closed,
)

const ApiKeyOut = Type.Object({
  id,
  name,
  scopes: Type.Array(Type.String(), { description: scopesMeaning }),
  appId: nullable(text('Id of the only application it is for; null for all.')),
  createdAt,
  expiresAt: nullable(instant('Time at which it expires; null for never.')),
  lastUsedAt: nullable(instant('Time of the last use, accurate to about a minute.')),
  revokedAt: nullable(instant('Time at which it was revoked.')),
})

const ApiKeyCreatedOut = Type.Object({
  ...ApiKeyOut.properties,
  token: text('The key itself; shown only once.'),
})

function toApiKeyOut(key: ApiKey): Out<typeof ApiKeyOut> {
  return {
    id: key.id,
    name: key.name,
    scopes: key.scopes,
    appId: key.app?.id ?? null,
    createdAt: iso(key.createdAt),
    expiresAt: isoOrNull(key.expiresAt),
    lastUsedAt: isoOrNull(key.lastUsedAt),
    revokedAt: isoOrNull(key.revokedAt),
  }
}

/** The key of the one application that a key is to be limited to; null for all. Both names for it may be given. */
async function limitOf({ app, appId }: Static<typeof ApiKeyIn>, store: Store): Promise<number | null> {
  const refs = [...new Set([app, appId])].filter((ref) => ref != null)
  const keys = await Promise.all(refs.map(async (ref) => (await lookUp('application', ref, store.findApplication)).key))
  const [key = null, ...others] = new Set(keys)
  const message = 'is another application than `app`; give one of the two'
  refuseIf(others.length === 0 ? [] : [{ at: ['body', 'appId'], message, type: 'application' }])
  return key
}

export const apiKeys = {
  tag: 'API Key',
  description: 'Keys for this API, with their scopes.',
  schemas: { ApiKeyIn, ApiKeyOut, ApiKeyCreatedOut },
  routes: [
    route('GET /api-key', admin, {
      id: 'v1.api-key.list',
      summary: 'List API keys',
      query: PageQuery,
      answers: { 200: listOf(ApiKeyOut) },
      handle: ({ query }, { store, clock }) =>
        paginate(clock, query, { ...byId('key'), list: store.listApiKeys, toOut: toApiKeyOut }),
    }),
    route('POST /api-key', admin, {
      id: 'v1.api-key.create',
      summary: 'Create an API key',
      description: 'The key itself is shown only in this answer.',
      body: ApiKeyIn,
      answers: { 201: ApiKeyCreatedOut },
      answersSecret: true,
      handle: async ({ body }, { store, randomText }) => {
        const app = await limitOf(body, store)
        const token = makeToken('sk', randomText)
        const expiresInMs = body.expiresInSeconds == null ? null : body.expiresInSeconds * 1000
        const { name, scopes } = body
        const made = await store.createApiKey({ name, hash: hashApiKey(token), scopes, app, expiresInMs })
        return { ...toApiKeyOut(made), token }
      },
    }),
    route('DELETE /api-key/:key', admin, {
      id: 'v1.api-key.delete',
      summary: 'Revoke an API key',
      answers: { 204: null },
      handle: async ({ params }, { store, auth }) => {
        const revoked = await store.revokeApiKey(params.key)
        if (revoked === undefined) throw noSuch('key', params.key)
        auth.forget()
      },
    }),
  ],
} satisfies Noun
