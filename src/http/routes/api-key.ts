import type { FastifyInstance } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import { hashApiKey, makeApiKey } from '../api-key.ts'
import type { Authenticator } from '../auth.ts'
import type { HttpContext } from '../context.ts'
import { getApplication } from '../lookup.ts'
import { PageQuery, paginate } from '../pagination.ts'
import { ApiKeyIn, toApiKeyOut } from '../schemas/api-key.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

const bodyProblems = compile(ApiKeyIn, 'body')
const pageProblems = compile(PageQuery, 'query')

/** API keys: make one, list and revoke them. */
export function apiKeyRoutes(api: FastifyInstance, { store, randomText }: HttpContext, auth: Authenticator): void {
  api.post('/api-key', { config: { answersSecret: true } }, async (request, reply) => {
    refuseIf(bodyProblems(request.body))
    const { name, scopes, app: ref, expiresInSeconds } = request.body as ApiKeyIn
    const app = ref == null ? null : (await getApplication(store, ref)).key
    const token = makeApiKey(randomText)
    const expiresInMs = expiresInSeconds == null ? null : expiresInSeconds * 1000
    const made = await store.createApiKey({ name, hash: hashApiKey(token), scopes, app, expiresInMs })
    return reply.code(201).send({ ...toApiKeyOut(made), token })
  })

  api.get('/api-key', (request) => {
    const query = readQuery(PageQuery, request.query)
    refuseIf(pageProblems(query))
    return paginate('key', query as PageQuery, 'descending', (page) => store.listApiKeys(page), toApiKeyOut)
  })

  api.delete<{ Params: { key: string } }>('/api-key/:key', async (request, reply) => {
    const revoked = await store.revokeApiKey(request.params.key)
    if (revoked === undefined) throw new AppError('not_found', 'There is no such key.')
    auth.forget()
    return reply.code(204).send()
  })
}
