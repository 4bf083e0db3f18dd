import type { FastifyInstance } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import type { HttpContext } from '../context.ts'
import { headerProblems } from '../endpoint-problems.ts'
import type { EndpointScope } from '../endpoint-scope.ts'
import { refuseDamaged, requireEndpoint } from '../lookup.ts'
import {
  EndpointHeadersIn,
  EndpointHeadersPatch,
  headersLimit,
  lowerCased,
  patchedHeaders,
  toHeadersOut,
} from '../schemas/endpoint-headers.ts'
import { compile, refuseIf } from '../validate.ts'

interface OfEndpoint {
  Params: { app: string; endpoint: string }
}

const inProblems = compile(EndpointHeadersIn, 'body')
const patchProblems = compile(EndpointHeadersPatch, 'body')

/** The headers that go out with every delivery of an endpoint. */
export function endpointHeaderRoutes(api: FastifyInstance, { store }: HttpContext, scope: EndpointScope): void {
  const path = `${scope.path}/:endpoint/headers`
  const find = async (params: OfEndpoint['Params']) =>
    requireEndpoint(store, await scope.owner(params), params.endpoint)

  api.get<OfEndpoint>(path, async ({ params }) => {
    const endpoint = await find(params)
    refuseDamaged(endpoint, 'headers')
    return toHeadersOut(endpoint.headers)
  })

  api.put<OfEndpoint>(path, async ({ params, body }, reply) => {
    const { app, key } = await find(params)
    refuseIf(inProblems(body))
    const { headers } = body as EndpointHeadersIn
    refuseIf(headerProblems(headers))
    await changed(store.updateEndpoint(app, key, { headers: lowerCased(headers) }))
    return reply.code(204).send()
  })

  api.patch<OfEndpoint>(path, async ({ params, body }, reply) => {
    const { app, key } = await find(params)
    refuseIf(patchProblems(body))
    const patch = body as EndpointHeadersPatch
    const given = Object.entries(patch.headers ?? {}).filter((entry): entry is [string, string] => entry[1] !== null)
    refuseIf(headerProblems(Object.fromEntries(given)))
    await changed(
      store.updateEndpoint(app, key, (before) => {
        refuseDamaged(before, 'headers')
        const headers = patchedHeaders(before.headers, patch)
        if (Object.keys(headers).length > headersLimit) refuseIf([tooManyHeaders])
        refuseIf(headerProblems(headers))
        return { headers }
      }),
    )
    return reply.code(204).send()
  })
}

const tooManyHeaders = {
  at: ['body', 'headers'],
  message: `must not bring an endpoint to more than ${headersLimit} headers`,
  type: 'maxProperties',
}

async function changed(update: Promise<unknown>): Promise<void> {
  if ((await update) === undefined) throw new AppError('not_found', 'There is no such endpoint.')
}
