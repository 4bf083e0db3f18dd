import type { FastifyInstance } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import { whyNotDelivered } from '../../domain/why.ts'
import { countLimit, type LaneFacts } from '../../store/replaying.ts'
import type { HttpContext } from '../context.ts'
import { getEndpoint, getMessage } from '../lookup.ts'
import { toAttemptOut } from '../schemas/attempt.ts'
import { instantOf, toLaneOut } from '../schemas/lane.ts'

/** What an endpoint's deliveries wait for: the lane as a whole, and one delivery in it. */
export function laneRoutes(api: FastifyInstance, { store }: HttpContext): void {
  api.get<{ Params: { app: string; endpoint: string } }>('/app/:app/endpoint/:endpoint/lane', async (request) => {
    const endpoint = await getEndpoint(store, request.params.app, request.params.endpoint)
    return toLaneOut(endpoint, await laneOf(endpoint.key))
  })

  api.get<{ Params: { app: string; message: string; endpoint: string } }>(
    '/app/:app/msg/:message/endpoint/:endpoint/why',
    async ({ params }) => {
      const message = await getMessage(store, params.app, params.message)
      const endpoint = await getEndpoint(store, params.app, params.endpoint)
      const delivery = { endpoint: endpoint.key, message: message.key }
      // The queue is read first: a delivery that ends in between is then seen to have ended.
      const queued = await store.findQueued(delivery)
      const [dead, [latest], lane] = await Promise.all([
        queued === undefined ? store.findDead(endpoint.key, message.key) : undefined,
        store.latestAttempts([delivery]),
        laneOf(endpoint.key),
      ])
      const why = whyNotDelivered({ now: lane.now, message, endpoint, latest, dead, queued, lane })
      return {
        msgId: message.id,
        endpointId: endpoint.id,
        reason: why.reason,
        detail: why.detail,
        nextAt: instantOf(why.nextAt),
        ahead: queued?.ahead ?? 0,
        isAheadExact: (queued?.ahead ?? 0) < countLimit,
        attempts: latest?.n ?? 0,
        lastAttempt: latest === undefined ? null : toAttemptOut(latest, message, endpoint, true),
        asOf: new Date(lane.now).toISOString(),
      }
    },
  )

  async function laneOf(endpoint: number): Promise<LaneFacts> {
    const lane = await store.findLane(endpoint)
    if (lane === undefined) throw new AppError('not_found', 'There is no such endpoint.')
    return lane
  }
}
