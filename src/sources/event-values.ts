import { createHash } from 'node:crypto'
import { readPointer, valueAt } from '../json/pointer.ts'
import { textOf } from '../json/token.ts'
import { isHeaderName } from '../wire/headers.ts'
import { type Arrival, formOf, type Genuine, headerOf } from './arrival.ts'

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
/** Values of the body in all templates of one value. Each pointer reads the body up to its value. */
const pointersLimit = 3
const valueLength = 256
/** A pointer takes up to 8 ms for a mebibyte of short keys. */
const pointerBytesLimit = 1_048_576

type TemplatePart =
  | { readonly text: string }
  | { readonly from: 'header' | 'pointer' | 'form' | 'claim'; readonly name: string }

/** The problem of the templates of one value, as the end of a sentence about it; undefined when there is none. */
export function valueTemplatesProblem(templates: readonly ValueTemplate[]): string | undefined {
  const problem = templates.map(templateProblem).find((text) => text !== undefined)
  if (problem !== undefined) return problem
  const pointers = new Set(templates.flatMap((template) => templatePartsOf(template) ?? []).flatMap(pointerOf))
  return pointers.size > pointersLimit ? `may have at most ${pointersLimit} different JSON pointers` : undefined
}

function pointerOf(part: TemplatePart): string[] {
  return 'from' in part && part.from === 'pointer' ? [part.name] : []
}

/** The problem of a template, as the end of a sentence about it; undefined when there is none. */
function templateProblem(template: ValueTemplate): string | undefined {
  if (template === '' || template.length > templateLength) return `must have 1 to ${templateLength} characters`
  const parts = templatePartsOf(template)
  if (parts === undefined) {
    return 'may have braces only around header:NAME, form:NAME, claim:NAME or a JSON pointer such as /data/id'
  }
  if (parts.filter((part) => 'from' in part).length > insertsLimit) return `may insert at most ${insertsLimit} values`
  return undefined
}

function templatePartsOf(template: ValueTemplate): TemplatePart[] | undefined {
  const parts: TemplatePart[] = []
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

function insertOf(text: string): TemplatePart | undefined {
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

/** A genuine request, whose form and pointers are each read once. */
export class GenuineRequest {
  readonly #arrival: Arrival
  readonly #claims: Readonly<Record<string, unknown>>
  readonly #unproven: readonly string[]
  readonly #pointed = new Map<string, string | undefined>()
  #form: URLSearchParams | null | undefined

  constructor(arrival: Arrival, { claims = {}, unproven = [] }: Genuine) {
    this.#arrival = arrival
    this.#claims = claims
    this.#unproven = unproven
  }

  header(name: string): string | undefined {
    return this.#unproven.includes(name) ? undefined : headerOf(this.#arrival, name)
  }

  pointer(pointer: string): string | undefined {
    const known = this.#pointed.get(pointer)
    if (known !== undefined || this.#pointed.has(pointer)) return known
    const value = scalarAt(this.#arrival.body, pointer)
    this.#pointed.set(pointer, value)
    return value
  }

  form(name: string): string | undefined {
    if (this.#form === undefined) this.#form = formOf(this.#arrival) ?? null
    return this.#form?.get(name) ?? undefined
  }

  claim(name: string): string | undefined {
    const claim = Object.hasOwn(this.#claims, name) ? this.#claims[name] : undefined
    return typeof claim === 'string' || typeof claim === 'number' ? String(claim) : undefined
  }
}

/** Reads the event type and the event id of genuine requests. The templates are valid. */
export function eventValues(eventType: readonly ValueTemplate[], eventId: readonly ValueTemplate[]) {
  const types = eventType.map((template) => templatePartsOf(template) ?? [])
  const ids = eventId.map((template) => templatePartsOf(template) ?? [])
  return {
    typeOf: (request: GenuineRequest) => firstOf(types, request, asEventType),
    idOf: (request: GenuineRequest) => firstOf(ids, request, asEventId),
  }
}

function firstOf(
  templates: readonly (readonly TemplatePart[])[],
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

function insertedOf(
  { from, name }: Exclude<TemplatePart, { text: string }>,
  request: GenuineRequest,
): string | undefined {
  const value = request[from](name)
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
