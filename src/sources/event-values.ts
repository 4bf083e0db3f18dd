import { createHash } from 'node:crypto'
import { readPointer, valueAt } from '../json/pointer.ts'
import { textOf } from '../json/token.ts'
import { isHeaderName } from '../wire/headers.ts'
import { type Arrival, formOf, headerOf } from './arrival.ts'

/**
 * A template of an event type or an event id. Braces hold a value of the request: `{header:x-github-event}`, `{/data/id}`
 * for a JSON pointer into the body, `{form:MessageSid}` for a field of a form, `{claim:jti}` for a claim of a JWT. All
 * other characters stand for themselves.
 */
export type ValueTemplate = string

export const templateLength = 256
/** The templates of one value. The first template whose values are all there is used. */
export const templatesLimit = 4
const insertsLimit = 4
const valueLength = 256
/** Pointers read the body up to their value, so a body may not be read too often. */
const pointerBytesLimit = 1_048_576

type Part =
  | { readonly text: string }
  | { readonly from: 'header' | 'pointer' | 'form' | 'claim'; readonly name: string }

/** The problem of a template, as the end of a sentence about it; undefined when there is none. */
export function valueTemplateProblem(template: ValueTemplate): string | undefined {
  if (template === '' || template.length > templateLength) return `must have 1 to ${templateLength} characters`
  const parts = partsOf(template)
  if (parts === undefined) {
    return 'may have braces only around header:NAME, form:NAME, claim:NAME or a JSON pointer such as /data/id'
  }
  if (parts.filter((part) => 'from' in part).length > insertsLimit) return `may insert at most ${insertsLimit} values`
  return undefined
}

function partsOf(template: ValueTemplate): Part[] | undefined {
  const parts: Part[] = []
  for (let at = 0; at < template.length; ) {
    const open = template.indexOf('{', at)
    const text = template.slice(at, open < 0 ? undefined : open)
    if (text.includes('}')) return undefined
    if (text !== '') parts.push({ text })
    if (open < 0) break
    const close = template.indexOf('}', open)
    const insert = close < 0 ? undefined : insertOf(template.slice(open + 1, close))
    if (insert === undefined) return undefined
    parts.push(insert)
    at = close + 1
  }
  return parts
}

function insertOf(text: string): Part | undefined {
  if (text.startsWith('/')) return readPointer(text) === undefined ? undefined : { from: 'pointer', name: text }
  const colon = text.indexOf(':')
  const name = text.slice(colon + 1)
  if (colon < 0 || name === '') return undefined
  switch (text.slice(0, colon)) {
    case 'header':
      return isHeaderName(name) ? { from: 'header', name: name.toLowerCase() } : undefined
    case 'form':
      return { from: 'form', name }
    case 'claim':
      return { from: 'claim', name }
    default:
      return undefined
  }
}

/** Reads the event type and the event id of genuine requests. */
export interface EventValues {
  typeOf(request: GenuineRequest): string | undefined
  idOf(request: GenuineRequest): string | undefined
}

export interface GenuineRequest {
  readonly arrival: Arrival
  readonly claims: Readonly<Record<string, unknown>> | undefined
}

/** The templates are valid. */
export function eventValues(eventType: readonly ValueTemplate[], eventId: readonly ValueTemplate[]): EventValues {
  const types = eventType.map((template) => partsOf(template) ?? [])
  const ids = eventId.map((template) => partsOf(template) ?? [])
  return {
    typeOf: (request) => firstOf(types, request, asEventType),
    idOf: (request) => firstOf(ids, request, asEventId),
  }
}

function firstOf(
  templates: readonly (readonly Part[])[],
  request: GenuineRequest,
  as: (text: string) => string | undefined,
): string | undefined {
  for (const parts of templates) {
    const texts = parts.map((part) => ('text' in part ? part.text : insertedOf(part, request)))
    const value = texts.includes(undefined) ? undefined : as(texts.join(''))
    if (value !== undefined) return value
  }
  return undefined
}

function insertedOf(part: Exclude<Part, { text: string }>, { arrival, claims }: GenuineRequest): string | undefined {
  const value = ((): string | undefined => {
    switch (part.from) {
      case 'header':
        return headerOf(arrival, part.name)
      case 'pointer':
        return scalarAt(arrival.body, part.name)
      case 'form':
        return formOf(arrival)?.get(part.name) ?? undefined
      case 'claim': {
        const claim = claims !== undefined && Object.hasOwn(claims, part.name) ? claims[part.name] : undefined
        return typeof claim === 'string' || typeof claim === 'number' ? String(claim) : undefined
      }
    }
  })()
  return value === '' ? undefined : value
}

const quote = 0x22

/** The string or number that a pointer names; undefined for everything else. */
function scalarAt(body: Uint8Array, pointer: string): string | undefined {
  if (body.length > pointerBytesLimit) return undefined
  const span = valueAt(body, pointer)
  if (span === undefined || span.end - span.start > 8 * valueLength) return undefined
  const first = body[span.start] as number
  if (first === quote) return textOf(body, span.start, span.end)
  const isNumber = first === 0x2d || (first >= 0x30 && first <= 0x39)
  return isNumber ? Buffer.from(body.subarray(span.start, span.end)).toString('latin1') : undefined
}

/** A text as the name of an event type: `orders/create` becomes `orders.create`. */
function asEventType(text: string): string | undefined {
  const name = text
    .slice(0, 2 * valueLength)
    .replaceAll(/[/: .]+/g, '.')
    .replaceAll(/[^a-zA-Z0-9\-_.]/g, '_')
    .replace(/^\./, '')
    .slice(0, valueLength)
    .replace(/\.$/, '')
  return name === '' ? undefined : name
}

/** An id as it came; the hash of one that is long or has other characters than visible ASCII. */
function asEventId(text: string): string {
  if (/^[\x21-\x7e]{1,256}$/.test(text)) return text
  return `sha256:${createHash('sha256').update(text).digest('hex')}`
}
