import { Type } from 'typebox'
import { noSuch } from '../../domain/app-error.ts'
import type { ApiKey } from '../../store/access.ts'
import { admin, scopes } from '../access.ts'
import { hashApiKey, makeApiKey } from '../auth.ts'
import { createdAt, id, instant, integer, iso, isoOrNull, listOf, maybe, nullable, text } from '../fields.ts'
import { lookUp } from '../lookup.ts'
import { PageQuery, paginate } from '../page.ts'
import { type Noun, type Out, route } from '../route.ts'

const year = 365 * 24 * 3600
const scopesMeaning = 'Scopes: `admin` for everything, `publish` to publish, `read` to read.'
const name = text('Display name.')

const ApiKeyIn = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 256, description: 'Display name.' }),
  scopes: Type.Array(Type.Enum([...scopes]), { minItems: 1, uniqueItems: true, description: scopesMeaning }),
  app: maybe(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description: 'Application that it is limited to, by id or uid; null for all.',
    }),
  ),
  expiresInSeconds: maybe(integer(1, 10 * year), 'Time until it expires; null for never.'),
})

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
      handle: ({ query }, { store }) =>
        paginate('key', query, 'descending', (page) => store.listApiKeys(page), toApiKeyOut),
    }),
    route('POST /api-key', admin, {
      id: 'v1.api-key.create',
      summary: 'Create an API key',
      description: 'The key itself is shown only in this answer.',
      body: ApiKeyIn,
      answers: { 201: ApiKeyCreatedOut },
      answersSecret: true,
      handle: async ({ body }, { store, randomText }) => {
        const app = body.app == null ? null : (await lookUp('application', body.app, store.findApplication)).key
        const token = makeApiKey(randomText)
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
