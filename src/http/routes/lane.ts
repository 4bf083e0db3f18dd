import type { FastifyInstance } from 'fastify'
import type { HttpContext } from '../context.ts'
import { Explainer } from '../explainer.ts'
import { getEndpoint } from '../lookup.ts'
import { toLaneOut } from '../schemas/lane.ts'

/** What an endpoint's deliveries wait for. */
export function laneRoutes(api: FastifyInstance, { store, clock }: HttpContext): void {
  const explainer = new Explainer(store, clock)

  api.get<{ Params: { app: string; endpoint: string } }>('/app/:app/endpoint/:endpoint/lane', async (request) => {
    const endpoint = await getEndpoint(store, request.params.app, request.params.endpoint)
    return toLaneOut(endpoint, await explainer.lane(endpoint))
  })
}
