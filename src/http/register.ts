import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest, onSendHookHandler } from 'fastify'
import { AppError } from '../domain/app-error.ts'
import { type BodyKind, kindOf, lineTypes, mediaType } from '../operations/check.ts'
import { ignoredHeader, pipelineOf } from '../operations/pipeline.ts'
import { type Route, urlOf } from '../operations/route.ts'
import type { Services } from '../operations/services.ts'
import { treatmentOf, unknownFieldsHeader } from '../operations/unknown-names.ts'
import { checkEncoding } from '../operations/validate.ts'
import { announcedBytes, HungUp, hasHungUp } from './connection.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** How the body of the route is taken in. */
    kind?: BodyKind
  }
}

/**
 * Makes Fastify serve a route: bytes come in, and go the way of `operations/pipeline.ts`.
 */
export function register(scope: FastifyInstance, route: Route, services: Services): void {
  const { need, admit } = route
  const run = pipelineOf(route, services)
  scope.route({
    // One route for both: Fastify's own route for HEAD would take as long to register as that for GET.
    method: route.method === 'GET' ? ['GET', 'HEAD'] : route.method,
    url: urlOf(route),
    ...(route.bodyLimit && { bodyLimit: route.bodyLimit(services) }),
    config: { kind: need === 'open' ? 'any' : kindOf(route), ...(need !== 'open' && { need }) },
    ...(admit && { onRequest: (request: FastifyRequest) => admit(request, services) }),
    ...(route.method === 'GET' && { onSend: leaveBodyOut }),
    handler: async (request, reply) => {
      const { status, headers, body, type } = await run(request, {
        unknownFields: treatmentOf(request.headers[unknownFieldsHeader], services.limits.unknownFields),
        checked: ({ ignored }) => {
          if (!ignored.isEmpty) reply.header(ignoredHeader, String(ignored))
        },
        begins: () => {
          if (hasHungUp(request)) throw new HungUp()
        },
      })
      reply.code(status).headers(headers)
      const isBytes = Buffer.isBuffer(body) || body instanceof Readable
      if (isBytes && !reply.hasHeader('content-type')) reply.type(type)
      return body
    },
  })
}

/** An answer to HEAD has the length of the body, and no body. */
const leaveBodyOut: onSendHookHandler = ({ method }, reply, payload, done) => {
  if (method !== 'HEAD') return done(null, payload)
  const bytes = bytesOf(payload)
  if (bytes !== undefined && bytes.length > 0) reply.header('content-length', bytes.length)
  done(null, null)
}

/**
 * Makes a scope take in bodies as bytes. A body without a content type is JSON. A request without a body is accepted whatever
 * its content type says, and however its body of no bytes is framed.
 */
export function acceptBodies(scope: FastifyInstance): void {
  scope.addHook('preParsing', ({ headers, routeOptions: { config } }, _reply, _payload, done) => {
    const bytes = announcedBytes(headers)
    if (bytes === 0 && config.kind !== 'any') delete headers['content-type']
    // A chunked body may turn out to have no bytes.
    else if (bytes !== undefined) checkType(headers, config.kind)
    done()
  })
  // Named beside all others, JSON is found without parsing the header of each request.
  const types = ['*', 'application/json']
  scope.addContentTypeParser(types, { parseAs: 'buffer' }, ({ headers, routeOptions: { config } }, bytes, done) => {
    try {
      const isAny = config.kind === 'any'
      if (bytes.length > 0) checkType(headers, config.kind)
      if (bytes.length > 0 || isAny)
        checkEncoding(isAny ? undefined : headers['content-type'], headers['content-encoding'])
      done(null, bytes)
    } catch (error) {
      done(error as Error)
    }
  })
}

function checkType(headers: IncomingHttpHeaders, kind: BodyKind | undefined): void {
  if (kind === 'any') return
  const type = mediaType(headers)
  if (type === undefined || type === 'application/json' || (kind === 'lines' && lineTypes.has(type))) return
  throw new AppError('unsupported_media_type', `The body must be application/json; it is ${type || 'of no type'}.`)
}

/** An answer as bytes; undefined when it is a stream. */
function bytesOf(payload: unknown): Uint8Array | undefined {
  if (payload === undefined || payload === null) return new Uint8Array(0)
  if (typeof payload === 'string') return Buffer.from(payload)
  return payload instanceof Uint8Array ? payload : undefined
}
