import type { FastifyInstance } from 'fastify'
import type { HttpContext } from '../context.ts'
import { endpointProblems } from '../endpoint-problems.ts'
import { getApplication, getEndpoint } from '../lookup.ts'
import { PageQuery, paginate } from '../pagination.ts'
import { EndpointIn, EndpointPatch, toEndpointChange, toEndpointOut, toNewEndpoint } from '../schemas/endpoint.ts'
import { makeSecret, readSecret, receiverKey } from '../secret.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

interface OfApp {
  Params: { app: string }
}
interface OfEndpoint {
  Params: { app: string; endpoint: string }
}

const inProblems = compile(EndpointIn, 'body')
const patchProblems = compile(EndpointPatch, 'body')
const pageProblems = compile(PageQuery, 'query')

/** Endpoints: create, list, get, change, and what a receiver needs to verify. */
export function endpointRoutes(api: FastifyInstance, { store, checkUrl, randomBytes }: HttpContext): void {
  api.post<OfApp>('/app/:app/endpoint', async (request, reply) => {
    const { key } = await getApplication(store, request.params.app)
    refuseIf(inProblems(request.body))
    const input = request.body as EndpointIn
    const secret = input.secret == null ? makeSecret(randomBytes) : readSecret(input.secret)
    const problems = endpointProblems(input, checkUrl)
    if (secret === undefined) {
      const message = 'must be whsec_ and 24 to 64 bytes in base64, or whsk_ and an ed25519 key in base64'
      problems.push({ at: ['body', 'secret'], message, type: 'secret' })
    }
    refuseIf(problems)
    const endpoint = await store.createEndpoint(key, toNewEndpoint(input, secret as string))
    return reply.code(201).send(toEndpointOut(endpoint))
  })

  api.get<OfApp>('/app/:app/endpoint', async (request) => {
    const { key } = await getApplication(store, request.params.app)
    const query = readQuery(PageQuery, request.query)
    refuseIf(pageProblems(query))
    return paginate('ep', query as PageQuery, 'descending', (page) => store.listEndpoints(key, page), toEndpointOut)
  })

  api.get<OfEndpoint>('/app/:app/endpoint/:endpoint', async (request) => {
    return toEndpointOut(await getEndpoint(store, request.params.app, request.params.endpoint))
  })

  api.patch<OfEndpoint>('/app/:app/endpoint/:endpoint', async (request) => {
    const before = await getEndpoint(store, request.params.app, request.params.endpoint)
    refuseIf(patchProblems(request.body))
    const input = request.body as EndpointPatch
    refuseIf(endpointProblems(input, checkUrl))
    const after = await store.updateEndpoint(before.app, before.key, toEndpointChange(input))
    // Gone between the two: the same answer as a moment later.
    return toEndpointOut(after ?? (await getEndpoint(store, request.params.app, request.params.endpoint)))
  })

  api.get<OfEndpoint>('/app/:app/endpoint/:endpoint/secret', async (request) => {
    const { secrets } = await getEndpoint(store, request.params.app, request.params.endpoint)
    return { key: receiverKey(secrets[0]?.secret ?? '') }
  })
}
