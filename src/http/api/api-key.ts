import { Type } from 'typebox'
import { noSuch } from '../../domain/app-error.ts'
import type { ApiKey } from '../../store/access.ts'
import { admin, scopes } from '../access.ts'
import { listOf } from '../answers/field.ts'
import { hashApiKey, makeApiKey } from '../api-key.ts'
import { createdAt, described, id, instant, iso, isoOrNull, maybe } from '../fields.ts'
import { getApplication } from '../lookup.ts'
import { PageQuery, paginate } from '../page.ts'
import { type Noun, type Out, route } from '../route.ts'
import { integer, nullable } from '../schemas/field.ts'

const year = 365 * 24 * 3600
const scopesMeaning = 'What it may do: `admin` everything, `publish` publish, `read` read'
const name = Type.String({ description: 'For people' })

const ApiKeyIn = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 256, description: 'For people' }),
  scopes: Type.Array(Type.Enum([...scopes]), { minItems: 1, uniqueItems: true, description: scopesMeaning }),
  app: maybe(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description: 'The id or uid of the one application it is for; all when null',
    }),
  ),
  expiresInSeconds: maybe(described(integer(1, 10 * year), 'When it stops working by itself; never when null')),
})

const ApiKeyOut = Type.Object({
  id,
  name,
  scopes: Type.Array(Type.String(), { description: scopesMeaning }),
  appId: nullable(Type.String({ description: 'The one application it is for' })),
  createdAt,
  expiresAt: nullable(instant('When it stops working by itself')),
  lastUsedAt: nullable(instant('When it was last used, to the minute or so')),
  revokedAt: nullable(instant('When it was revoked')),
})

const ApiKeyCreatedOut = Type.Object({
  ...ApiKeyOut.properties,
  token: Type.String({ description: 'Shown this once' }),
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

export const apiKeys: Noun = {
  tag: 'API Key',
  description: 'Who may use this API, and for what.',
  schemas: { ApiKeyIn, ApiKeyOut, ApiKeyCreatedOut },
  routes: [
    route({
      method: 'GET',
      path: '/api-key',
      need: admin,
      id: 'v1.api-key.list',
      summary: 'List API keys',
      query: PageQuery,
      answers: { 200: listOf(ApiKeyOut) },
      handle: ({ query }, { store }) =>
        paginate('key', query, 'descending', (page) => store.listApiKeys(page), toApiKeyOut),
    }),
    route({
      method: 'POST',
      path: '/api-key',
      need: admin,
      id: 'v1.api-key.create',
      summary: 'Make an API key',
      description: 'Its text is in this answer and nowhere else.',
      body: ApiKeyIn,
      answers: { 201: ApiKeyCreatedOut },
      answersSecret: true,
      handle: async ({ body }, { store, randomText }) => {
        const app = body.app == null ? null : (await getApplication(store, body.app)).key
        const token = makeApiKey(randomText)
        const expiresInMs = body.expiresInSeconds == null ? null : body.expiresInSeconds * 1000
        const { name, scopes } = body
        const made = await store.createApiKey({ name, hash: hashApiKey(token), scopes, app, expiresInMs })
        return { ...toApiKeyOut(made), token }
      },
    }),
    route({
      method: 'DELETE',
      path: '/api-key/:key',
      need: admin,
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
}
