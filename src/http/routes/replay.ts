import type { FastifyInstance, FastifyReply } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import type { TaskWork } from '../../domain/task.ts'
import { toStartedOut } from '../api/background-task.ts'
import type { HttpContext } from '../context.ts'
import { getEndpoint, getMessage } from '../lookup.ts'
import { BulkReplayIn, ReplayIn, readSpan, toReplayFilter } from '../schemas/replay.ts'
import { compile, refuseIf } from '../validate.ts'

interface OfEndpoint {
  Params: { app: string; endpoint: string }
}

const replayProblems = compile(ReplayIn, 'body')
const bulkProblems = compile(BulkReplayIn, 'body')

/** Sending again: one message at once, many in the background. All of it is served last, and at the endpoint's own pace. */
export function replayRoutes(api: FastifyInstance, { store, clock }: HttpContext): void {
  api.post<{ Params: { app: string; message: string; endpoint: string } }>(
    '/app/:app/msg/:message/endpoint/:endpoint/resend',
    { config: { bodyOptional: true } },
    async (request, reply) => {
      const { params } = request
      const message = await getMessage(store, params.app, params.message)
      const endpoint = await getEndpoint(store, params.app, params.endpoint)
      if (message.expunged) throw new AppError('missing_payload', "The message's content was expunged.")
      await store.replay([{ endpoint: endpoint.key, message: message.key }])
      return reply.code(202).send({})
    },
  )

  api.post<OfEndpoint>('/app/:app/endpoint/:endpoint/recover', async (request, reply) => {
    refuseIf(replayProblems(request.body))
    const input = paced(request.body as ReplayIn)
    return start(request.params, reply, (endpoint) => ({ type: 'endpoint.recover', input: { ...input, endpoint } }))
  })

  api.post<OfEndpoint>('/app/:app/endpoint/:endpoint/replay-missing', async (request, reply) => {
    refuseIf(replayProblems(request.body))
    const input = paced(request.body as ReplayIn)
    return start(request.params, reply, (endpoint) => ({ type: 'endpoint.replay', input: { ...input, endpoint } }))
  })

  api.post<OfEndpoint>('/app/:app/endpoint/:endpoint/bulk-replay', async (request, reply) => {
    refuseIf(bulkProblems(request.body))
    const body = request.body as BulkReplayIn
    const input = { ...paced(body), ...toReplayFilter(body) }
    return start(request.params, reply, (endpoint) => ({ type: 'endpoint.bulk-replay', input: { ...input, endpoint } }))
  })

  function paced(body: ReplayIn) {
    return { ...readSpan(body, clock.now()), perSecond: body.perSecond ?? null }
  }

  async function start(params: OfEndpoint['Params'], reply: FastifyReply, work: (endpoint: number) => TaskWork) {
    const { app, key } = await getEndpoint(store, params.app, params.endpoint)
    const task = await store.createTask({ app, work: work(key), data: { scanned: 0, replayed: 0 } })
    return reply.code(202).send(toStartedOut(task))
  }
}
