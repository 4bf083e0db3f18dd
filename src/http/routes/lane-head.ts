import type { FastifyInstance } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import type { HeadOrder } from '../../store/heads.ts'
import type { HttpContext } from '../context.ts'
import { getEndpoint, getMessage } from '../lookup.ts'
import { HeadIn } from '../schemas/order.ts'
import { compile, refuseIf } from '../validate.ts'

interface OfEndpoint {
  Params: { app: string; endpoint: string }
}

const problemsOf = compile(HeadIn, 'body')

/** What an operator does about a delivery that keeps others back. Whoever has the lane carries it out. */
export function laneHeadRoutes(api: FastifyInstance, { store }: HttpContext): void {
  async function direct({ app, endpoint: ref }: OfEndpoint['Params'], body: unknown, order: HeadOrder) {
    const input = (body === undefined ? {} : body) as HeadIn
    refuseIf(problemsOf(input))
    const endpoint = await getEndpoint(store, app, ref)
    assertOrder(endpoint, input)
    const named = input.messageId == null ? null : await getMessage(store, app, input.messageId)
    const answer = await store.directHead(endpoint.key, named?.key ?? null, order)
    if (answer.state === 'none') throw new AppError('not_found', 'No such delivery waits in this lane.')
    if (answer.state === 'busy') {
      throw new AppError('conflict', 'It does not wait for a retry: it is being sent, or waits for its turn.')
    }
    const [head] = named ? [named] : await store.loadMessages([answer.message])
    return { endpointId: endpoint.id, messageId: head?.id ?? null, order }
  }

  const config = { bodyOptional: true }
  for (const order of ['retry', 'skip'] as const) {
    api.post<OfEndpoint>(
      `/app/:app/endpoint/:endpoint/lane/head/${order}`,
      { config },
      async ({ params, body }, reply) => reply.code(202).send(await direct(params, body, order)),
    )
  }
}

function assertOrder({ flow }: Endpoint, { messageId }: HeadIn): void {
  if (flow.order === 'none') throw new AppError('conflict', 'The endpoint keeps no order: nothing keeps others back.')
  if (flow.order === 'fifo' || messageId != null) return
  refuseIf([{ at: ['body', 'messageId'], message: 'is required where each key has its own line', type: 'required' }])
}
