import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import type { Accepted, Publisher } from '../../intake/publisher.ts'
import { batchLimits, type Scanner } from '../../intake/scan.ts'
import type { Once } from '../../store/idempotency.ts'
import { type ApplicationIn, toNewApplication } from '../api/application-schema.ts'
import type { HttpContext } from '../context.ts'
import { hasKey, onceOf, queryOf } from '../idempotency.ts'
import { isRef } from '../lookup.ts'
import { noSuchApplication, type ReadMessage, readBatch, readPublish, readRaw } from '../read-publish.ts'
import { ContentQuery, messageBytes, noPayload, PrecheckIn, RawQuery, shownPayload } from '../schemas/message.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

interface OfApp {
  Params: { app: string }
}

const json = 'application/json; charset=utf-8'
const nothing = Buffer.alloc(0)
const contentProblems = compile(ContentQuery, 'query')
const rawProblems = compile(RawQuery, 'query')
const precheckProblems = compile(PrecheckIn, 'body')

/** Publishing: the hot path. The body comes as bytes and its payload stays so all the way to the receiver. */
export function publishRoute(api: FastifyInstance, context: HttpContext): void {
  const { publisher, scanner, clock } = context
  api.post<OfApp>('/app/:app/msg', (request, reply) => {
    const { app } = request.params
    const withContent = asksForContent(request.query)
    if (!isRef(app)) throw noSuchApplication()
    const bytes = bodyOf(request)
    const message = readPublish(scanner, bytes, clock.now())
    const { envelope, body, application } = message
    const publish = async () =>
      publisher.publish(app, envelope, body, hasKey(request) ? await onceFor(publisher, request, bytes) : null)
    const published = application === null ? publish() : orMaking(context, request, application, publish)
    return answer(reply, published, (accepted) => shown(message, accepted, withContent ? message.payload : noPayload))
  })
}

/** Publishing several messages, all or none. */
export function batchRoute(api: FastifyInstance, context: HttpContext): void {
  const { publisher, scanner, clock } = context
  // Eight megabytes of tables: made when the first batch comes.
  let batchScanner: Scanner | undefined
  api.post<OfApp>('/app/:app/msg/batch', (request, reply) => {
    const { app } = request.params
    const withContent = asksForContent(request.query)
    if (!isRef(app)) throw noSuchApplication()
    const bytes = bodyOf(request)
    batchScanner ??= scanner.sized(batchLimits)
    const messages = readBatch(scanner, batchScanner, bytes, clock.now())
    const publish = async () =>
      publisher.publishTogether(app, messages, hasKey(request) ? await onceFor(publisher, request, bytes) : null)
    const application = messages.find((message) => message.application !== null)?.application ?? null
    const published = application === null ? publish() : orMaking(context, request, application, publish)
    return answer(reply, published, (accepted) =>
      list(messages.map((m, i) => shown(m, accepted[i] as Accepted, withContent ? m.payload : noPayload))),
    )
  })
}

/** Publishing a body of any type, to be delivered as it came. */
export function rawRoute(api: FastifyInstance, { publisher, clock }: HttpContext): void {
  api.post<OfApp>('/app/:app/msg/raw', (request, reply) => {
    const { app } = request.params
    const query = readQuery(RawQuery, request.query)
    refuseIf(rawProblems(query))
    if (!isRef(app)) throw noSuchApplication()
    const { with_content: withContent = true } = query as RawQuery
    const bytes = bodyOf(request)
    const message = readRaw(query as RawQuery, request.headers['content-type'], bytes, clock.now())
    const { envelope, body } = message
    const content = () => Buffer.concat([Buffer.from(`${queryOf(request.url)}\n${envelope.contentType}\n`), bytes])
    const publish = async () =>
      publisher.publish(app, envelope, body, hasKey(request) ? await onceFor(publisher, request, content()) : null)
    return answer(reply, publish(), (accepted) =>
      shown(message, accepted, withContent ? shownPayload(body, envelope.contentType) : noPayload),
    )
  })
}

/** Asking beforehand whether a message would be delivered to anyone. */
export function precheckRoute(api: FastifyInstance, { publisher }: HttpContext): void {
  api.post<OfApp>('/app/:app/msg/precheck/active', async (request) => {
    const { app } = request.params
    refuseIf(precheckProblems(request.body))
    if (!isRef(app)) throw noSuchApplication()
    const { eventType, channels = null, payload } = request.body as PrecheckIn
    return { active: await publisher.reaches(app, eventType, channels, payload) }
  })
}

/** The once-only key of a publish. AppError `not_found` when there is no such application. */
async function onceFor(publisher: Publisher, request: FastifyRequest<OfApp>, content: Uint8Array): Promise<Once> {
  return onceOf(request, { app: await publisher.keyOf(request.params.app) }, content)
}

function bodyOf(request: FastifyRequest): Buffer {
  return (request.body as Buffer | undefined) ?? nothing
}

async function answer<T>(reply: FastifyReply, published: Promise<T>, bytesOf: (result: T) => Buffer): Promise<Buffer> {
  const bytes = bytesOf(await published)
  reply.code(202).header('content-type', json)
  return bytes
}

function shown({ envelope, deliverAt, expiresAt }: ReadMessage, accepted: Accepted, payload: Uint8Array): Buffer {
  const { key, id } = accepted
  return messageBytes({ ...envelope, key, id, deliverAt, expiresAt }, payload)
}

/** A list of messages that were just published: all of it is here. */
function list(items: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [Buffer.from('{"data":[')]
  for (const [i, item] of items.entries()) parts.push(...(i === 0 ? [item] : [comma, item]))
  parts.push(Buffer.from('],"iterator":null,"prevIterator":null,"done":true}'))
  return Buffer.concat(parts)
}

const comma = Buffer.from(',')

/** Publishes; when there is no such application, makes it under the uid the path names, if the caller may. */
async function orMaking<T>(
  { store }: HttpContext,
  request: FastifyRequest<OfApp>,
  application: ApplicationIn,
  publish: () => Promise<T>,
): Promise<T> {
  try {
    return await publish()
  } catch (error) {
    const { app } = request.params
    const mayMake = request.caller?.scopes.has('admin') === true && request.caller.app === null
    const missing = error instanceof AppError && error.code === 'not_found'
    if (!missing || !mayMake || app.startsWith('app_')) throw error
  }
  try {
    await store.createApplication({ ...toNewApplication(application), uid: request.params.app })
  } catch (error) {
    // Somebody else has just made it.
    if (!(error instanceof AppError) || error.code !== 'conflict') throw error
  }
  return publish()
}

function asksForContent(query: unknown): boolean {
  const values = readQuery(ContentQuery, query)
  refuseIf(contentProblems(values))
  return (values as ContentQuery).with_content ?? true
}
