import type { IncomingHttpHeaders } from 'node:http'
import { Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import { type EpochMs, parseInstant } from '../../domain/clock.ts'
import { queryName } from '../../domain/field.ts'
import type { Sliced } from '../../domain/turns.ts'
import type { Envelope } from '../../intake/publication.ts'
import { type ByteSpan, type Scanner, spansOfElements } from '../../json/scan.ts'
import { distinct, lenient, metadataProblems } from '../../operations/fields.ts'
import { payloadProblems } from '../../operations/payload.ts'
import { headerProblems, templateProblems } from '../../operations/problems.ts'
import { IgnoredFields } from '../../operations/unknown-names.ts'
import { checkContents, compile, nullsRemover, refuseIf } from '../../operations/validate.ts'
import { contentTypeHeader, isContentType } from '../../wire/headers.ts'
import type { ApplicationIn } from '../applications/schemas.ts'
import { batchLimit, EnvelopeIn, MessageFieldsIn, type RawQuery } from './schemas.ts'

/** A message as its producer sent it. */
export interface ReadMessage {
  readonly envelope: Envelope
  /** The bytes that are delivered. */
  readonly body: Uint8Array
  /** The payload, which the answer shows even when other bytes are delivered. */
  readonly payload: Uint8Array
  /** As requested, even if it has passed. */
  readonly deliverAt: EpochMs | null
  readonly expiresAt: EpochMs | null
  /** The application to create if it does not exist. */
  readonly application: ApplicationIn | null
}

/** The furthest time of a delivery. */
const deliverAtLimitMs = 90 * 24 * 60 * 60 * 1000
const openBracket = 0x5b
const json = 'application/json'

/** The payload is cut out of the text before; null stands for it. */
const fieldProblems = compile(
  Type.Object({ ...MessageFieldsIn.properties, payload: Type.Optional(Type.Null()) }, lenient),
  'body',
)
const batchProblems = compile(Type.Object({ messages: Type.Optional(Type.Null()) }, lenient), 'body')
const removeNulls = nullsRemover(MessageFieldsIn)

/** Takes a publish apart, and adds the fields that mean nothing to `ignored`. Throws AppError with everything that is wrong. */
export function readPublish(scanner: Scanner, body: Buffer, now: EpochMs, ignored: IgnoredFields): ReadMessage {
  const problems: FieldError[] = []
  const read = readOne(scanner, body, now, { problems, ignored })
  refuseIf(problems)
  return read as ReadMessage
}

/** Takes a batch apart, in parts. Throws AppError with everything that is wrong with any of its messages. */
export function* readBatch(
  scanner: Scanner,
  batchScanner: Scanner,
  body: Buffer,
  now: EpochMs,
  ignored: IgnoredFields,
): Sliced<ReadMessage[]> {
  const span = batchScanner.scan(body, 'messages')
  refuseIf(batchProblems(checkContents(JSON.parse(textWithout(body, span))), ignored))
  const at = ['body', 'messages']
  if (span === undefined) refuseIf([{ at, message: 'is required', type: 'required' }])
  const list = span as ByteSpan
  if (body[list.start] !== openBracket) refuseIf([{ at, message: 'must be array', type: 'type' }])
  const elements = spansOfElements(body, list)
  if (elements.length === 0 || elements.length > batchLimit) {
    refuseIf([{ at, message: `must hold 1 to ${batchLimit} messages`, type: 'maxItems' }])
  }
  const problems: FieldError[] = []
  const messages: (ReadMessage | undefined)[] = []
  for (const [i, { start, end }] of elements.entries()) {
    yield
    const own = { problems: [] as FieldError[], ignored: new IgnoredFields() }
    messages.push(readOne(scanner, body.subarray(start, end), now, own))
    ignored.addAll(own.ignored, 'messages')
    for (const problem of own.problems) problems.push({ ...problem, at: [...at, i, ...problem.at.slice(1)] })
  }
  refuseIf(problems)
  return messages as ReadMessage[]
}

/** Puts a message together whose body is to be delivered as it came. */
export function readRaw(query: RawQuery, given: IncomingHttpHeaders, body: Buffer, now: EpochMs): ReadMessage {
  const fields = new Map<string, unknown>(Object.entries(query))
  const names = Object.keys(EnvelopeIn.properties)
  const input = Object.fromEntries(names.map((name) => [name, fields.get(queryName(name)) ?? null])) as EnvelopeIn
  const headers = headersBeside(given)
  const type = given[contentTypeHeader] ?? 'application/octet-stream'
  const problems = fieldProblems(checkContents(input)).map((problem) => ({ ...problem, at: inQuery(problem.at) }))
  if (!isContentType(type))
    problems.push({ at: ['header', contentTypeHeader], message: 'is not valid', type: 'header' })
  for (const { at, ...problem } of headerProblems(headers)) {
    problems.push({ ...problem, at: ['header', `${messageHeader}${String(at.at(-1))}`] })
  }
  const times: FieldError[] = []
  const instants = instantsOf(input, now, times)
  problems.push(...times.map((problem) => ({ ...problem, at: inQuery(problem.at) })))
  refuseIf(problems)
  const envelope = envelopeOf({ ...input, headers }, type, instants, now)
  return { envelope, body, payload: body, ...instants, application: null }
}

/** A request with bytes for a body has the message's headers among its own, behind this. */
export const messageHeader = 'sluice-header-'

/** The headers of a message beside its bytes: `Sluice-Header-X-Region: eu` is `x-region`; null for none. */
export function headersBeside(given: IncomingHttpHeaders): Record<string, string> | null {
  const own = Object.entries(given).filter(([name]) => name.startsWith(messageHeader))
  if (own.length === 0) return null
  return Object.fromEntries(own.map(([name, value]) => [name.slice(messageHeader.length), String(value)]))
}

const envelopeProblems = compile(EnvelopeIn, 'body')
const contentTypePattern = /^[\x21-\x7e][\x20-\x7e]{0,254}$/

/** The envelope of a message that comes without HTTP; undefined when there are mistakes, which `more` begin. */
export function readFields(
  input: Readonly<Record<string, unknown>>,
  contentType: unknown,
  now: EpochMs,
  more: readonly FieldError[] = [],
): { readonly envelope: Envelope | undefined; readonly problems: readonly FieldError[] } {
  const problems = [...envelopeProblems(checkContents(input)), ...more]
  if (typeof contentType !== 'string' || !contentTypePattern.test(contentType)) {
    problems.push({ at: ['body', 'contentType'], message: 'must be printable ASCII', type: 'pattern' })
  }
  const fits = problems.length === 0
  const envelope = fits ? readEnvelope(input as EnvelopeIn, contentType as string, now, problems) : undefined
  return { envelope: problems.length === 0 ? envelope : undefined, problems }
}

/** Reads an envelope whose shape is right; adds every other mistake to `problems`. */
export function readEnvelope(input: EnvelopeIn, contentType: string, now: EpochMs, problems: FieldError[]): Envelope {
  return readTimed(input, contentType, now, problems).envelope
}

/** The envelope, and the instants that it was read from. */
function readTimed(input: EnvelopeIn, contentType: string, now: EpochMs, problems: FieldError[]) {
  if (input.headers != null) problems.push(...headerProblems(input.headers))
  const instants = instantsOf(input, now, problems)
  return { envelope: envelopeOf(input, contentType, instants, now), instants }
}

/** The findings beside the message. */
interface BodyFindings {
  readonly problems: FieldError[]
  readonly ignored: IgnoredFields
}

function readOne(
  scanner: Scanner,
  body: Buffer,
  now: EpochMs,
  { problems, ignored }: BodyFindings,
): ReadMessage | undefined {
  const span = scanner.scan(body, 'payload')
  // The payload is cut out before parsing, so that its content costs nothing and stays as it is.
  const input = checkContents(JSON.parse(textWithout(body, span)))
  removeNulls?.(input)
  const found = fieldProblems(input, ignored)
  if (found.length > 0) problems.push(...found)
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input)
  if (isObject && span === undefined) problems.push(payloadProblem('is required', 'required'))
  if (span) problems.push(...payloadProblems(body.subarray(span.start, span.end)))
  if (problems.length > 0 || span === undefined) return undefined
  const fields = input as MessageFieldsIn
  const payload = body.subarray(span.start, span.end)
  const raw = fields.transformationsParams?.rawPayload ?? null
  const contentType = raw === null ? json : rawContentType(fields, problems)
  const { application = null } = fields
  if (application !== null) {
    problems.push(...metadataProblems(application.metadata), ...templateProblems(application.headerTemplates))
  }
  const { envelope, instants } = readTimed(fields, contentType, now, problems)
  const { deliverAt, expiresAt } = instants
  return { envelope, body: raw === null ? payload : Buffer.from(raw), payload, deliverAt, expiresAt, application }
}

/** A text with one value replaced by null. */
export function textWithout(body: Buffer, span: ByteSpan | undefined): string {
  if (span === undefined) return body.toString('utf8')
  return `${body.toString('utf8', 0, span.start)}null${body.toString('utf8', span.end)}`
}

/** The earliest and the latest delivery of a message. */
type Instants = Pick<ReadMessage, 'deliverAt' | 'expiresAt'>

/** As requested, even if it has passed; adds every mistake to `problems`. */
function instantsOf(input: EnvelopeIn, now: EpochMs, problems: FieldError[]): Instants {
  const deliverAt = instantOf(input.deliverAt ?? null, now, ['body', 'deliverAt'], problems)
  const at = ['body', 'expiresAt']
  const { expiresInSeconds: seconds = null } = input
  if (seconds !== null && input.expiresAt != null) {
    problems.push({ at, message: 'cannot be combined with expiresInSeconds', type: 'date-time' })
  }
  const expiresAt = seconds === null ? instantOf(input.expiresAt ?? null, now, at, problems) : now + seconds * 1000
  if (deliverAt !== null && expiresAt !== null && deliverAt > now && expiresAt <= deliverAt) {
    problems.push({ at, message: 'must be later than deliverAt', type: 'date-time' })
  }
  return { deliverAt, expiresAt }
}

function envelopeOf(
  input: EnvelopeIn,
  contentType: string,
  { deliverAt, expiresAt }: Instants,
  now: EpochMs,
): Envelope {
  const { eventType, eventId = null, headers = null, dedupeKey = null } = input
  const [channels, tags] = [distinct(input.channels), distinct(input.tags)]
  const delayMs = deliverAt === null ? 0 : Math.max(0, deliverAt - now)
  const expiresInMs = expiresAt === null ? null : Math.max(0, expiresAt - now)
  const hours = input.payloadRetentionHours ?? (input.payloadRetentionPeriod ?? 0) * 24
  const payloadForMs = hours === 0 ? null : hours * 3_600_000
  const { orderingKey = null, endpoint = null } = input
  return {
    eventType,
    eventId,
    channels,
    tags,
    headers,
    dedupeKey,
    orderingKey,
    endpoint,
    contentType,
    delayMs,
    payloadForMs,
    expiresInMs,
  }
}

function instantOf(text: string | null, now: EpochMs, at: FieldError['at'], problems: FieldError[]): EpochMs | null {
  if (text === null) return null
  const instant = parseInstant(text)
  if (Number.isNaN(instant)) problems.push({ at, message: 'is not an instant', type: 'date-time' })
  else if (instant > now + deliverAtLimitMs) {
    problems.push({ at, message: 'must not be more than 90 days from now', type: 'date-time' })
  }
  return instant
}

function rawContentType({ transformationsParams }: MessageFieldsIn, problems: FieldError[]): string {
  const headers = Object.entries(transformationsParams?.headers ?? {})
  const type = headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? json
  const at = ['body', 'transformationsParams', 'headers', 'content-type']
  if (!isContentType(type)) problems.push({ at, message: 'is not valid', type: 'header' })
  return type
}

function payloadProblem(message: string, type: string): FieldError {
  return { at: ['body', 'payload'], message, type }
}

/** Where a field of an envelope stands in the query. */
function inQuery([, field = '', ...rest]: FieldError['at']): FieldError['at'] {
  return ['query', queryName(String(field)), ...rest]
}
