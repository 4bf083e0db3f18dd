import type { FastifyInstance } from 'fastify'
import type { HttpContext } from '../context.ts'
import { getMessage } from '../lookup.ts'
import { payloadOf } from '../payload.ts'
import { ContentQuery, messageBytes, noPayload } from '../schemas/message.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

const json = 'application/json; charset=utf-8'
const queryProblems = compile(ContentQuery, 'query')

/** Reading messages. */
export function messageRoutes(api: FastifyInstance, { store }: HttpContext): void {
  api.get<{ Params: { app: string; message: string } }>('/app/:app/msg/:message', async (request, reply) => {
    const withContent = asksForContent(request.query)
    const message = await getMessage(store, request.params.app, request.params.message)
    return reply.type(json).send(messageBytes(message, withContent ? payloadOf(message, message.body) : noPayload))
  })
}

function asksForContent(query: unknown): boolean {
  const values = readQuery(ContentQuery, query)
  refuseIf(queryProblems(values))
  return (values as ContentQuery).with_content ?? true
}
