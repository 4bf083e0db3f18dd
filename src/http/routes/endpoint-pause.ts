import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { HttpContext } from '../context.ts'
import { getEndpoint } from '../lookup.ts'
import { toEndpointOut } from '../schemas/endpoint.ts'

interface OfEndpoint {
  Params: { app: string; endpoint: string }
}

/** Holding an endpoint for a while: what is published meanwhile waits. Whether it is disabled is another matter. */
export function endpointPauseRoutes(api: FastifyInstance, { store }: HttpContext): void {
  const setPaused = async ({ params }: FastifyRequest<OfEndpoint>, paused: boolean) => {
    const { app, key } = await getEndpoint(store, params.app, params.endpoint)
    const after = await store.updateEndpoint(app, key, { paused })
    return toEndpointOut(after ?? (await getEndpoint(store, params.app, params.endpoint)))
  }

  const config = { bodyOptional: true }
  api.post<OfEndpoint>('/app/:app/endpoint/:endpoint/pause', { config }, (request) => setPaused(request, true))
  api.post<OfEndpoint>('/app/:app/endpoint/:endpoint/resume', { config }, (request) => setPaused(request, false))
}
