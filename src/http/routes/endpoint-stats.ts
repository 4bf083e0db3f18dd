import type { FastifyInstance } from 'fastify'
import type { HttpContext } from '../context.ts'
import { Explainer } from '../explainer.ts'
import { getEndpoint } from '../lookup.ts'
import { readStatsRange, StatsQuery } from '../schemas/endpoint-stats.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

const queryProblems = compile(StatsQuery, 'query')

/** What waits is counted no further than this: a number that large says all there is to say. */
const waitingLimit = 100_000

/** How an endpoint's deliveries have gone of late. */
export function endpointStatsRoute(api: FastifyInstance, { store, clock }: HttpContext): void {
  const explainer = new Explainer(store, clock)
  const turn = () => new Promise<void>((resolve) => clock.soon(resolve))

  api.get<{ Params: { app: string; endpoint: string } }>('/app/:app/endpoint/:endpoint/stats', async (request) => {
    const query = readQuery(StatsQuery, request.query)
    refuseIf(queryProblems(query))
    const { since, until } = readStatsRange(query as StatsQuery, clock.now())
    const endpoint = await getEndpoint(store, request.params.app, request.params.endpoint)
    const { key } = endpoint
    let [success, fail] = [0, 0]
    // Counted in small parts, with a turn for everything else in between.
    for (let after = since; after < until; await turn()) {
      const count = await store.countAttempts(key, after, until)
      success += count.delivered
      fail += count.failed
      after = count.reached
    }
    // What is being sent waits in the store until its end is recorded.
    const waiting = await store.countWaiting(key, waitingLimit)
    const sending = Math.min(waiting, (await explainer.lane(endpoint)).live?.snapshot.inFlight ?? 0)
    return { success, pending: waiting - sending, sending, fail, canceled: 0 }
  })
}
