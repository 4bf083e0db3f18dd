import type { FastifyInstance } from 'fastify'
import { circuitActions } from '../../domain/flow.ts'
import type { HttpContext } from '../context.ts'
import { getEndpoint } from '../lookup.ts'
import { toEndpointOut } from '../schemas/endpoint.ts'

interface OfEndpoint {
  Params: { app: string; endpoint: string }
}

/** Operators' word on circuits. It is stored as an order, which whoever has the lane carries out once. */
export function circuitRoutes(api: FastifyInstance, { store }: HttpContext): void {
  for (const action of circuitActions) {
    const path = `/app/:app/endpoint/:endpoint/circuit/${action}`
    api.post<OfEndpoint>(path, { config: { bodyOptional: true } }, async ({ params }) => {
      const { app, key } = await getEndpoint(store, params.app, params.endpoint)
      const after = await store.updateEndpoint(app, key, ({ flow }) => ({
        flow: { circuitOrder: { n: (flow.circuitOrder?.n ?? 0) + 1, action } },
      }))
      return toEndpointOut(after ?? (await getEndpoint(store, params.app, params.endpoint)))
    })
  }
}
