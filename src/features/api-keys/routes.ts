import { type Static, Type } from 'typebox'
import { noSuch } from '../../domain/app-error.ts'
import { admin, scopes } from '../../operations/access.ts'
import { hashApiKey, makeToken } from '../../operations/auth.ts'
import {
  closed,
  createdAt,
  described,
  displayName,
  id,
  instant,
  integer,
  iso,
  isoOrNull,
  listOf,
  maybe,
  nullable,
  shortText,
  text,
} from '../../operations/fields.ts'
import { lookUp } from '../../operations/lookup.ts'
import { byId, PageQuery, paginate } from '../../operations/page.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { Store } from '../../store/store.ts'
import type { ApiKey } from '../access/store.ts'

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
