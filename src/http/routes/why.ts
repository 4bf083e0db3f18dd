import type { FastifyInstance } from 'fastify'
import type { Endpoint } from '../../domain/endpoint.ts'
import { decodeKey } from '../../domain/ids.ts'
import { describeAll, wideBlockers, worstFirst } from '../../domain/why-waiting.ts'
import type { HttpContext } from '../context.ts'
import { Explainer } from '../explainer.ts'
import { getApplication, getEndpoint, getMessage } from '../lookup.ts'
import { toBlockerOut, toEndpointWhyOut, toWhyOut, WhyQuery } from '../schemas/why.ts'
import { sift } from '../sift.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

const queryProblems = compile(WhyQuery, 'query')
const defaultLimit = 25

/** Why something is not delivered yet: one delivery, an endpoint, a whole application. */
export function whyRoutes(api: FastifyInstance, { store, clock }: HttpContext): void {
  const explainer = new Explainer(store, clock)

  api.get<{ Params: { app: string; message: string; endpoint: string } }>(
    '/app/:app/msg/:message/endpoint/:endpoint/why',
    async ({ params }) => {
      const message = await getMessage(store, params.app, params.message)
      const endpoint = await getEndpoint(store, params.app, params.endpoint)
      return toWhyOut(message, endpoint, await explainer.delivery(message, endpoint))
    },
  )

  api.get<{ Params: { app: string; endpoint: string } }>('/app/:app/endpoint/:endpoint/why', async ({ params }) => {
    const endpoint = await getEndpoint(store, params.app, params.endpoint)
    return toEndpointWhyOut(await explainer.endpoint(endpoint))
  })

  api.get<{ Params: { app: string } }>('/app/:app/why', async (request) => {
    const query = readQuery(WhyQuery, request.query)
    refuseIf(queryProblems(query))
    const { limit = defaultLimit, iterator } = query as WhyQuery
    const app = await getApplication(store, request.params.app)
    const asked = { limit, order: 'ascending', ...(iterator === undefined ? {} : { iterator }) } as const
    const { data, ...page } = await sift(asked, {
      read: async (after: number | null, order, count) =>
        (await store.listEndpoints(app.key, { after, order, limit: count })).items,
      keep: async (rows: Endpoint[]) => {
        const waiting = new Set(await store.waitingAmong(rows.map(({ key }) => key)))
        return rows.filter(({ key }) => waiting.has(key)).map((row) => ({ row }))
      },
      keepsAll: false,
      positionOf: ({ key }) => key,
      write: ({ id }) => id,
      parse: (text) => decodeKey('ep', text),
    })
    const explained = worstFirst(await explainer.all(data.map(({ row }) => row)))
    const isWhole = page.done && iterator === undefined && explained.every(({ isExact }) => isExact)
    return {
      appId: app.id,
      detail: describeAll(explained, isWhole),
      blockers: wideBlockers(explained.map(({ lane }) => lane)).map(toBlockerOut),
      data: explained.map(toEndpointWhyOut),
      ...page,
      asOf: new Date(explained[0]?.lane.now ?? clock.now()).toISOString(),
    }
  })
}
