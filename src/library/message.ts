import { AppError, noSuch } from '../domain/app-error.ts'
import { keyTime } from '../domain/ids.ts'
import { readTraceContext } from '../domain/trace-context.ts'
import type { Envelope } from '../intake/publication.ts'
import type { Accepted } from '../intake/publisher.ts'
import { invalid } from '../operations/in-process.ts'
import { isRef } from '../operations/lookup.ts'
import { EnvelopeIn } from '../operations/nouns/message-schema.ts'
import { readEnvelope } from '../operations/read-publish.ts'
import { checkContents, compile } from '../operations/validate.ts'
import { systemClock } from '../runtime/clock.ts'

/** A message to publish. */
export interface NewMessage extends EnvelopeIn {
  /** An object is sent as JSON. Text and bytes are sent exactly as they are. */
  readonly payload: object | string | Uint8Array
  /** The content type of the payload; `application/json` by default. */
  readonly contentType?: string | undefined
  /** The W3C `traceparent` of the span that publishes it; an invalid one is ignored. */
  readonly traceparent?: string | undefined
  readonly tracestate?: string | undefined
}

/** A message that is stored and will be delivered. */
export interface PublishedMessage {
  readonly id: string
  readonly timestamp: Date
}

const envelopeProblems = compile(EnvelopeIn, 'body')
// Printable ASCII: it travels as a header.
const contentTypePattern = /^[\x21-\x7e][\x20-\x7e]{0,254}$/

/** Splits a message into its envelope and body. Throws AppError that names every mistake. */
export function readMessage(
  app: string,
  message: NewMessage,
  limitBytes: number,
): { envelope: Envelope; body: Buffer } {
  if (!isRef(app)) throw noSuch('application', app)
  const { payload, contentType = 'application/json', traceparent, tracestate, ...input } = message
  const problems = [...envelopeProblems(checkContents(input))]
  if (!contentTypePattern.test(contentType)) {
    problems.push({ at: ['body', 'contentType'], message: 'must be printable ASCII', type: 'pattern' })
  }
  const body = bytesOf(payload)
  if (body === undefined) {
    problems.push({ at: ['body', 'payload'], message: 'must be an object, text or bytes', type: 'type' })
  }
  const envelope = problems.length > 0 ? undefined : readEnvelope(input, contentType, systemClock.now(), problems)
  if (envelope === undefined || problems.length > 0) throw invalid(problems)
  if (body !== undefined && body.byteLength > limitBytes) {
    throw new AppError('payload_too_large', `The payload is larger than bodyLimit, ${limitBytes} bytes.`)
  }
  const trace = readTraceContext(traceparent, tracestate)
  return { envelope: trace === null ? envelope : { ...envelope, trace }, body: body as Buffer }
}

export function published({ key, id }: Accepted): PublishedMessage {
  return { id, timestamp: new Date(keyTime(key)) }
}

function bytesOf(payload: unknown): Buffer | undefined {
  if (typeof payload === 'string') return Buffer.from(payload)
  // Copied, because the caller may change the bytes while they are being stored.
  if (payload instanceof Uint8Array) return Buffer.from(payload)
  if (typeof payload !== 'object' || payload === null) return undefined
  const text = JSON.stringify(payload)
  return text === undefined ? undefined : Buffer.from(text)
}
