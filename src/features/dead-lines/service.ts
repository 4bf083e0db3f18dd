import { isUtf8 } from 'node:buffer'
import { AppError, type FieldError } from '../../domain/app-error.ts'
import { type EpochMs, parseInstant } from '../../domain/clock.ts'
import type { DeadLetter } from '../../domain/delivery.ts'
import { decodeKey, keySkewMs, keyTime } from '../../domain/ids.ts'
import type { OutcomeCode } from '../../domain/outcome.ts'
import { Turns } from '../../domain/turns.ts'
import { withField } from '../../json/exact.ts'
import type { ByteSpan, Scanner } from '../../json/scan.ts'
import { distinct, isoOrNull } from '../../operations/fields.ts'
import { splitByBytes } from '../../operations/page.ts'
import { headerProblems } from '../../operations/problems.ts'
import type { Services } from '../../operations/services.ts'
import { checkContents, compile } from '../../operations/validate.ts'
import { isContentType } from '../../wire/headers.ts'
import type { AppRef } from '../access/store.ts'
import { DeadLineIn, toDeadOut } from '../dead-letters/schemas.ts'
import type { BroughtLetter, Contents, LetterForFile } from '../dead-letters/store.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { textWithout } from '../messages/reading-service.ts'
import { isJsonObject } from '../messages/schemas.ts'

/**
 * Dead letters as lines of JSON, for export and import. The payload stands in the line byte for byte; `bodyBase64` holds
 * it when it is no JSON object, has line breaks, or is JSON that an import would refuse.
 */

/** How far the instant at which a delivery died at another machine may be ahead. */
const skewMs = 24 * 60 * 60 * 1000
const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20
const newLine = Buffer.of(lineFeed)

/** A dead letter as a line, without the line break. */
export function writeLine(
  scanner: Scanner,
  app: Pick<AppRef, 'id' | 'uid'>,
  letter: DeadLetter,
  endpoint: Endpoint | undefined,
  contents: Contents | undefined,
): Buffer {
  const { message, orderKey = null, variant = null } = contents ?? {}
  const response = letter.response
  const fields = {
    ...toDeadOut(letter, message, endpoint, app.id),
    appUid: app.uid,
    responseBase64: response === null || isUtf8(response) ? null : base64(response),
    endpointUid: endpoint?.uid ?? null,
    contentType: message?.contentType ?? null,
    tags: message?.tags ?? null,
    headers: message?.headers ?? null,
    deliverAt: isoOrNull(message?.deliverAt ?? null),
    expiresAt: isoOrNull(message?.expiresAt ?? null),
    orderingKey: message?.orderingKey ?? null,
    orderKey,
    variant: variant && { bodyBase64: variant.body && base64(variant.body), signature: variant.signature },
  }
  if (message === undefined || message.expunged) return Buffer.from(JSON.stringify({ ...fields, bodyBase64: null }))
  const { body } = message
  const whole = lineWith({ ...fields, bodyBase64: null }, body)
  if (isJsonObject(body) && !hasLineBreak(body) && isAcceptable(scanner, whole)) return whole
  const encoded = { ...fields, bodyBase64: base64(body) }
  const shown = isJsonObject(body) ? lineWith(encoded, oneLine(body)) : undefined
  return shown !== undefined && isAcceptable(scanner, shown) ? shown : Buffer.from(JSON.stringify(encoded))
}

/** The first of these letters as lines with their line breaks, as many as may be in memory at once. */
export async function linesOf(
  { store, clock, scanner }: Pick<Services, 'store' | 'clock' | 'scanner'>,
  letters: readonly LetterForFile[],
): Promise<{ readonly bytes: Buffer; readonly last: LetterForFile }> {
  const messages = await store.loadSummaries([...new Set(letters.map(({ message }) => message))])
  const bytesOf = new Map(messages.map(({ key, bytes }) => [key, bytes]))
  const [part = []] = splitByBytes(letters, ({ message, bytes }) => bytes + 2 * (bytesOf.get(message) ?? 0))
  const dead = (await store.loadDead(part)).filter((letter) => letter !== undefined)
  const apps = await store.applicationRefs(dead.map(({ app }) => app))
  const endpoints = new Map(
    (await store.loadEndpoints([...new Set(dead.map(({ endpoint }) => endpoint))])).map((one) => [one.key, one]),
  )
  const contents = await store.loadContents(dead)
  const lines: Buffer[] = []
  for (const [i, letter] of dead.entries()) {
    await Turns.by(clock).next()
    const app = apps.get(letter.app) ?? { id: '', uid: null }
    lines.push(writeLine(scanner, app, letter, endpoints.get(letter.endpoint), contents[i]), newLine)
  }
  return { bytes: Buffer.concat(lines), last: part.at(-1) as LetterForFile }
}

/** A line that was read: the endpoint by the names in the line, and the dead letter. */
export interface ReadLine {
  /** The names of its application, the best first. */
  readonly apps: readonly string[]
  readonly endpointId: string
  readonly endpointUid: string | null
  readonly letter: Omit<BroughtLetter, 'endpoint'>
}

const lineProblems = compile(DeadLineIn, 'body')

/** Reads a line. Undefined when it has mistakes, which are added to `problems`. */
export function readLine(scanner: Scanner, line: Buffer, now: EpochMs, problems: FieldError[]): ReadLine | undefined {
  const read = parse(scanner, line, problems)
  if (read === undefined) return undefined
  const { input, payload } = read
  const { msgId, endpointId, endpointUid = null, reason, attempts, responseStatusCode: status, code, error } = input
  const apps = [input.appId, input.appUid].filter((name) => name != null)
  const { contentType = null, eventType, eventId = null, headers = null } = input
  const [channels, tags] = [distinct(input.channels), distinct(input.tags)]
  const { orderingKey = null, orderKey = null, variant = null } = input
  const key = decodeKey('msg', msgId)
  const instants = readAll(input, problems)
  if (key === undefined) problems.push(problem('msgId', 'is not the id of a message'))
  // An erasure of all messages up to now would not find it.
  else if (keyTime(key) > now + keySkewMs) problems.push(problem('msgId', 'is from the future: import it later'))
  if (instants.diedAt !== null && instants.diedAt > now + skewMs) problems.push(problem('diedAt', 'is in the future'))
  if (contentType !== null && !isContentType(contentType)) problems.push(problem('contentType', 'is not valid'))
  problems.push(...headerProblems(headers))
  // The signature is sent as a header.
  if (variant?.signature != null && !/^[\x21-\x7e]+$/.test(variant.signature)) {
    problems.push(problem('variant', 'has a signature that is no header value of visible ASCII'))
  }
  const answer = input.response == null ? null : Buffer.from(input.response)
  const response = bytesOf('responseBase64', input.responseBase64, problems) ?? answer
  const body = bytesOf('bodyBase64', input.bodyBase64, problems) ?? payload
  const variantBody = bytesOf('variant', variant?.bodyBase64, problems)
  if (problems.length > 0 || key === undefined) return undefined
  const { diedAt, deliverAt, expiresAt } = instants
  const about = { eventType, eventId, channels, tags, headers, deliverAt, expiresAt, orderingKey }
  const message = { key, id: msgId, ...about, contentType: contentType ?? 'application/json' }
  const letter = {
    message,
    body,
    reason,
    attempts,
    diedAt: diedAt as EpochMs,
    status,
    code: code as OutcomeCode,
    error: error ?? null,
    response,
    orderKey,
    variant: variant && { body: variantBody, signature: variant.signature ?? null },
  }
  return { apps, endpointId, endpointUid, letter }
}

function parse(scanner: Scanner, line: Buffer, problems: FieldError[]) {
  let span: ByteSpan | undefined
  let input: unknown
  try {
    span = scanner.scan(line, 'payload')
    // The payload is cut out before anything is parsed, so that its bytes stay as they are.
    input = JSON.parse(textWithout(line, span))
    // The answer of the receiver is stored as bytes, so any text is fine.
    checkContents(typeof input === 'object' ? { ...input, response: null } : input)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const said = error.fields.length > 0 ? error.fields : [{ at: ['body'], message: error.message, type: error.code }]
    problems.push(...said)
    return undefined
  }
  const wrong = lineProblems(input)
  problems.push(...wrong)
  if (wrong.length > 0) return undefined
  const payload = span === undefined ? null : Buffer.from(line.subarray(span.start, span.end))
  return { input: input as DeadLineIn, payload: payload?.equals(nullBytes) ? null : payload }
}

const nullBytes = Buffer.from('null')

/** The instants of a line; they have the right shape, and may yet be no day of any calendar. */
function readAll(input: DeadLineIn, problems: FieldError[]) {
  const read = (name: 'diedAt' | 'deliverAt' | 'expiresAt'): EpochMs | null => {
    const text = input[name] ?? null
    const at = text === null ? null : parseInstant(text)
    if (at === null || (at >= 0 && at < Number.MAX_SAFE_INTEGER)) return at
    problems.push(problem(name, 'is not an instant'))
    return null
  }
  return { diedAt: read('diedAt'), deliverAt: read('deliverAt'), expiresAt: read('expiresAt') }
}

function bytesOf(field: string, text: string | null | undefined, problems: FieldError[]): Buffer | null {
  if (text == null) return null
  const bytes = Buffer.from(text, 'base64')
  // Decoding skips invalid characters and would give other bytes.
  if (bytes.toString('base64') !== text) problems.push(problem(field, 'is not base64'))
  return bytes
}

function problem(field: string, message: string): FieldError {
  return { at: ['body', field], message, type: 'dead_letter' }
}

function lineWith(fields: object, payload: Uint8Array): Buffer {
  return withField(Buffer.from(JSON.stringify(fields)), 'payload', Buffer.from(payload))
}

function isAcceptable(scanner: Scanner, line: Buffer): boolean {
  try {
    scanner.scan(line, 'payload')
    return true
  } catch (error) {
    if (error instanceof AppError) return false
    throw error
  }
}

function hasLineBreak(body: Uint8Array): boolean {
  return body.includes(lineFeed) || body.includes(carriageReturn)
}

/** JSON without line breaks: outside of strings they are mere space, and inside of them JSON has none. */
export function oneLine(json: Uint8Array): Buffer {
  if (!hasLineBreak(json)) return Buffer.from(json.buffer, json.byteOffset, json.byteLength)
  const line = Buffer.from(json)
  // 25 ms for 16 MiB of line breaks; a search for each of them took 590 ms, and a callback for each byte 110 ms.
  for (let i = 0; i < line.length; i++) if (line[i] === lineFeed || line[i] === carriageReturn) line[i] = space
  return line
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64')
}
