import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import { LiveStream } from '../../src/features/live/stream-service.ts'
import { operations } from '../../src/features/routes.ts'
import { Problem, ValidationProblem } from '../../src/operations/openapi.ts'
import { pathOf } from './paths.ts'

/**
 * Holds every answer of the API to what the reference says of it: a status it names, every field that is required, of
 * its type, and no field it does not know. An answer that differs becomes a 500, and `onDifference` hears why.
 */
export function checkResponses(app: FastifyInstance, onDifference: (difference: string) => void): void {
  app.addHook('onSend', async (request, reply, payload) => {
    const { url = '' } = request.routeOptions
    const method = request.method === 'HEAD' ? 'GET' : request.method
    // A provider decides about the answers of its sources.
    if (!/^(\/ingest)?\/api\/v1\//.test(url) || method === 'OPTIONS' || reply.statusCode >= 500) return payload
    if (payload instanceof LiveStream) {
      // It has no end.
      payload.destroy()
      return ''
    }
    // An error is complete in its first part; the stream may end only when the rest of the request has arrived.
    const rest = payload instanceof Readable && reply.statusCode >= 400 ? payload.iterator() : undefined
    const first = (await rest?.next())?.value
    const whole = first ?? (payload instanceof Readable ? await text(payload) : payload)
    const plain = decoderOf(reply.getHeader('content-encoding'))(whole as Buffer)
    const difference = differenceOf(`${method} ${pathOf(url)}`, reply.statusCode, plain)
    if (difference === undefined) return rest === undefined ? whole : Readable.from(both(first, rest))
    onDifference(`${request.method} ${request.url}: ${difference}`)
    throw new Error(difference)
  })
}

function decoderOf(encoding: unknown): (bytes: Buffer) => Buffer {
  if (encoding === 'br') return brotliDecompressSync
  return encoding === 'gzip' ? gunzipSync : (bytes) => bytes
}

async function* both(first: unknown, rest: AsyncIterable<unknown>) {
  yield first
  yield* rest
}

/** The first difference between an answer and the reference; undefined when it fits. */
export function differenceOf(route: string, status: number, payload: unknown): string | undefined {
  const operation = operations[route]
  // 405 is answered by paths, not by operations.
  if (operation === undefined) return status === 405 ? undefined : `${route} is not in the reference`
  const answer = status < 400 ? operation.answers[status] : status === 422 ? ValidationProblem : Problem
  if (answer === undefined) return `${status} is not in the reference of ${route}`
  if (answer === null) return payload ? `${status} has a body: ${payload}` : undefined
  const json = String(payload ?? '')
  const [schema, values] =
    'lines' in answer
      ? [
          (answer as { lines: TSchema }).lines,
          json
            .split('\n')
            .filter(Boolean)
            .map((line) => JSON.parse(line)),
        ]
      : [answer as TSchema, [JSON.parse(json)]]
  const validator = strict(schema)
  const wrong = values.find((value) => !validator.Check(value))
  if (wrong === undefined) return undefined
  return `${JSON.stringify(validator.Errors(wrong)[0])} in ${json.slice(0, 2000)}`
}

const validators = new Map<TSchema, Validator>()

function strict(schema: TSchema): Validator {
  let validator = validators.get(schema)
  if (validator === undefined) {
    validator = Compile(closed(schema) as TSchema)
    validators.set(schema, validator)
  }
  return validator
}

/** The same schema, without room for fields it does not name. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]))
  const isObjectSchema = [copy.type].flat().includes('object') && typeof copy.properties === 'object'
  return isObjectSchema ? { additionalProperties: false, ...copy } : copy
}
