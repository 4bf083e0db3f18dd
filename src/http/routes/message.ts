import type { FastifyInstance } from 'fastify'
import type { FieldError } from '../../domain/app-error.ts'
import { AppError } from '../../domain/app-error.ts'
import type { Envelope } from '../../intake/publisher.ts'
import type { Scanner } from '../../intake/scan.ts'
import { checkContents } from '../body.ts'
import type { HttpContext } from '../context.ts'
import { getMessage, isRef } from '../lookup.ts'
import { ContentQuery, EnvelopeIn, messageBytes, noPayload } from '../schemas/message.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

const json = 'application/json; charset=utf-8'
const openBrace = 0x7b
const nothing = Buffer.alloc(0)

const envelopeProblems = compile(EnvelopeIn, 'body')
const queryProblems = compile(ContentQuery, 'query')

/** Reading messages. */
export function messageRoutes(api: FastifyInstance, { store }: HttpContext): void {
  api.get<{ Params: { app: string; message: string } }>('/app/:app/msg/:message', async (request, reply) => {
    const withContent = asksForContent(request.query)
    const message = await getMessage(store, request.params.app, request.params.message)
    return reply.type(json).send(messageBytes(message, withContent ? message.body : noPayload))
  })
}

/** Publishing: the hot path. The body comes as bytes and its payload stays so all the way to the receiver. */
export function publishRoute(api: FastifyInstance, { publisher, scanner }: HttpContext): void {
  api.post<{ Params: { app: string } }>('/app/:app/msg', (request, reply) => {
    const { app } = request.params
    const withContent = asksForContent(request.query)
    if (!isRef(app)) throw new AppError('not_found', 'There is no such application.')
    const { envelope, payload } = readPublish(scanner, (request.body as Buffer | undefined) ?? nothing)
    publisher.publish(app, envelope, payload).then(
      ({ key, id }) => {
        const bytes = messageBytes({ key, id, ...envelope }, withContent ? payload : noPayload)
        reply.code(202).header('content-type', json).send(bytes)
      },
      (error: Error) => reply.send(error),
    )
  })
}

/** Takes a publish apart. Throws AppError with everything that is wrong with it. */
export function readPublish(scanner: Scanner, body: Buffer): { envelope: Envelope; payload: Buffer } {
  const span = scanner.scan(body, 'payload')
  // The payload is cut out before anything is parsed: whatever is in it costs nothing and cannot be changed.
  const text = span
    ? `${body.toString('utf8', 0, span.start)}null${body.toString('utf8', span.end)}`
    : body.toString('utf8')
  const input = checkContents(JSON.parse(text))
  const problems = envelopeProblems(input)
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input)
  if (isObject && span === undefined) problems.push(payloadProblem('is required', 'required'))
  if (span && body[span.start] !== openBrace) problems.push(payloadProblem('must be object', 'type'))
  refuseIf(problems)
  const { eventType, eventId = null, channels = null } = input as EnvelopeIn
  const { start, end } = span as { start: number; end: number }
  return {
    envelope: { eventType, eventId, channels, contentType: 'application/json', delayMs: 0 },
    payload: body.subarray(start, end),
  }
}

function payloadProblem(message: string, type: string): FieldError {
  return { at: ['body', 'payload'], message, type }
}

function asksForContent(query: unknown): boolean {
  const values = readQuery(ContentQuery, query)
  refuseIf(queryProblems(values))
  return (values as ContentQuery).with_content ?? true
}
