import { type Static, type TOptional, type TSchema, type TUnsafe, Type } from 'typebox'
import type { FieldError } from '../domain/app-error.ts'
import { type EpochMs, instantPattern } from '../domain/clock.ts'
import { type FieldKind, queryName, type SimpleForm } from '../domain/field.ts'
import { endpointFields } from '../features/endpoints/noun.ts'
import { nouns } from '../features/nouns.ts'
import { metadataBytesLimit, metadataMeaning, uidMeaning } from '../noun/shared-fields.ts'

/** A name that a caller chooses: regions, event types, channels. It can stand in a path, where `.` and `..` are none. */
export const namePattern = '^(?!\\.{1,2}$)[a-zA-Z0-9\\-_.]+$'
/** A JSON pointer (RFC 6901), and one to something within the whole. */
export const pointerPattern = '^(/([^~/]|~[01])*)*$'
export const innerPointerPattern = '^(/([^~/]|~[01])*)+$'

/** A uid or an eventId that cannot be mistaken for an id of the same kind. */
const uidPattern = (prefix: string): string => `^(?!${prefix}_|\\.{1,2}$)[a-zA-Z0-9\\-_.]+$`
export const eventIdPattern = '^(?!msg_)[a-zA-Z0-9\\-_]+$'

/** A display name stands on one line of a table, a log or a terminal. */
const displayPattern = '^[^\\u0000-\\u001f\\u007f-\\u009f]*$'

/** Sentences for patterns that are hard to read. */
export const patternMeanings: ReadonlyMap<string, string> = new Map([
  [namePattern, 'may contain only letters, digits, -, _ and ., and must not be . or ..'],
  [eventIdPattern, 'may contain only letters, digits, - and _, and must not begin with msg_'],
  ...['app', 'ep', ...Object.values(nouns).map(({ prefix }) => prefix)].map((prefix): [string, string] => [
    uidPattern(prefix),
    `may contain only letters, digits, -, _ and ., must not be . or .., and must not begin with ${prefix}_`,
  ]),
  [displayPattern, 'must not contain control characters, such as a line break'],
  [instantPattern, 'must be an instant such as 2026-11-15T09:40:00Z'],
  [pointerPattern, 'must be a JSON pointer such as /user/id'],
  [innerPointerPattern, 'must be a JSON pointer such as /user/id'],
])

/**
 * Refuses unknown fields. Every object of a request says that it is closed, or lenient: a field that is ignored leaves a
 * right, a limit, an address or a time as it is by default, which is mostly more than the caller asked for.
 */
export const closed = { additionalProperties: false } as const

/**
 * Ignores unknown fields; the answer names them (`Sluice-Ignored-Fields`). A name that resembles a known one is refused.
 * For what producers send: a producer may know fields of its own or of another version, and its messages must be taken.
 */
export const lenient = { additionalProperties: true } as const

/** The schema of a uid, for objects whose ids begin with the prefix. */
export function uid(prefix: string) {
  return nullable(described(Type.Unsafe<string>(schemaOf({ is: 'uid', prefix })), uidMeaning))
}

/**
 * The same value, or null. Written as a list of types, so that a problem is reported for the value itself instead of
 * twice, once for each alternative.
 */
export function nullable<T extends TSchema>(schema: T) {
  const { type, anyOf, enum: values, ...rest } = schema as unknown as Written
  if (anyOf !== undefined) return Type.Unsafe<Static<T> | null>({ anyOf: [...anyOf, { type: 'null' }], ...rest })
  if (values !== undefined) return Type.Unsafe<Static<T> | null>({ enum: [...values, null], ...rest })
  return Type.Unsafe<Static<T> | null>({ type: [type, 'null'], ...rest })
}

interface Written {
  readonly type?: string
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly unknown[]
}

/** A text that is not empty. */
export function shortText(maxLength: number) {
  return Type.String({ minLength: 1, maxLength })
}

/** The display name of a thing, which is not empty. */
export function displayName(maxLength: number) {
  return Type.String({ minLength: 1, maxLength, pattern: displayPattern })
}

/** A whole number within bounds that every store and every client can represent exactly. */
export function integer(minimum: number, maximum: number) {
  return Type.Integer({ minimum, maximum })
}

/** A name of the caller's own or of an event type, by which a thing is found. */
export const nameText = Type.String({ minLength: 1, maxLength: 256, pattern: namePattern })

/** Labels of the caller's own: text to text. */
export const Labels = Type.Record(Type.String(), Type.String())

/** The metadata of a thing, in a request and in an answer. */
export const metadataIn = optional(Labels, metadataMeaning)
export const metadata = described(Labels, metadataMeaning)

/** Problems of metadata beyond its shape: it is for small values. */
export function metadataProblems(metadata: Readonly<Record<string, string>> | undefined): FieldError[] {
  if (metadata === undefined || Buffer.byteLength(JSON.stringify(metadata)) <= metadataBytesLimit) return []
  const message = `must not take up more than ${metadataBytesLimit} bytes as JSON`
  return [{ at: ['body', 'metadata'], message, type: 'maxBytes' }]
}

/** An instant in a request, RFC 3339. */
export const dateTime = Type.String({ pattern: instantPattern, description: 'RFC 3339' })

/** An instant in an answer, RFC 3339. */
export const Instant = Type.String({ format: 'date-time' })

export const MaybeInstant = nullable(Instant)

export function listOf<T extends TSchema>(item: T) {
  return Type.Object({
    data: Type.Array(item),
    iterator: nullable(text('Pass it to get the next page; set even on the last page.')),
    prevIterator: nullable(text('Pass it as `iterator` to get the page before.')),
    done: flag('Whether this is the last page.'),
  })
}

/** A public id such as `app_2b…`. */
export function idOf(prefix: string) {
  return Type.String({ pattern: `^${prefix}_[0-9A-Za-z]{27}$` })
}

/** A field that may be left out, or be null. */
export function maybe<T extends TSchema>(schema: T, description?: Description) {
  return Type.Optional(nullable(description === undefined ? schema : described(schema, description)))
}

/** A field that may be left out. */
export function optional<T extends TSchema>(schema: T, description: Description) {
  return Type.Optional(described(schema, description))
}

/** Fields of an answer: a text, a whole number, and yes or no. */
export const text = (description: string) => Type.String({ description })
export const whole = (description: string) => Type.Integer({ description })
export const flag = (description: string) => Type.Boolean({ description })

/** A description, or a field whose description is shared. */
type Description = string | TSchema

/** The same schema with a description of its own. */
export function described<T extends TSchema>(schema: T, description: Description) {
  const words = typeof description === 'string' ? description : (description as Written).description
  return Type.Unsafe<Static<T>>({ ...schema, description: words })
}

/** An instant in an answer, RFC 3339. */
export function instant(description: string) {
  return Type.String({ format: 'date-time', description })
}

export const id = text('Unique id, assigned by the server.')
export const createdAt = instant('Time of creation.')
export const updatedAt = instant('Time of the last change.')

export const appId = text('Id of the application.')
export const msgId = text('Message, by id; where it is a filter, also by eventId.')
export const endpointId = text('Endpoint, by id; where it is a filter, also by uid.')
export const url = text('URL that deliveries are sent to.')
/** The caller's own name for a thing, in an answer. */
export const uidOut = nullable(text(uidMeaning))

/** A list of texts in an answer; null for none. */
export function texts(description: string) {
  return nullable(Type.Array(Type.String(), { description }))
}

/** Names as they are kept: each once. */
export function distinct(names: readonly string[] | null | undefined): readonly string[] | null {
  return names == null ? null : [...new Set(names)]
}

/** The instant that was written last: the publishes of a millisecond share it, and writing one takes 0.4 µs. */
let lastIso: readonly [at: EpochMs, text: string] = [0, new Date(0).toISOString()]

/** An instant as answers write it. */
export function iso(at: EpochMs): string {
  if (lastIso[0] !== at) lastIso = [at, new Date(at).toISOString()]
  return lastIso[1]
}

export function isoOrNull(at: EpochMs | null): string | null {
  return at === null ? null : iso(at)
}

/** A message or an endpoint has no more headers than this, in number and in bytes of all names and values together. */
export const headersLimit = 64
export const headerBytesLimit = 8192

export const headerValue = Type.String({ maxLength: 4096 })

export const headersMeaning = endpointFields.headers.description
/** Headers that are sent with deliveries, by name. */
export const Headers = Type.Record(Type.String(), headerValue, { maxProperties: headersLimit })

/** Fields without an object among them, such as a filter. */
type SimpleFields = Readonly<Record<string, { readonly kind: FieldKind; readonly description: string }>>

/** The values of fields in a body, where null is as good as absent. */
export type BodyOf<F extends SimpleFields> = {
  readonly [Name in keyof F]?: (F[Name]['kind'] extends FieldKind<infer T> ? T : never) | null
}

export function inBody(fields: SimpleFields): Record<string, TSchema> {
  return mapValues(fields, ({ kind, description }) => maybe(schemaOf(kind), description))
}

type QuerySchemas<F extends SimpleFields> = {
  [Name in keyof F & string as QueryName<Name>]: TOptional<
    TUnsafe<F[Name]['kind'] extends FieldKind<readonly string[]> ? string[] : string>
  >
}

/** The type of `queryName`. */
type QueryName<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${QueryName<Rest>}`
  : Name

export function listInQuery(description: string) {
  return Type.Array(Type.String({ maxLength: 256 }), {
    maxItems: 1000,
    description: `${description} Repeat the parameter, or separate the names by commas.`,
  })
}

/** The schemas of fields in a query, with names in snake case. */
export function inQuery<F extends SimpleFields>(fields: F): QuerySchemas<F> {
  const entries = Object.entries(fields).map(([name, { kind, description }]) => {
    const schema = kind.is === 'list' ? listInQuery(description) : described(schemaOf(kind), description)
    return [queryName(name), Type.Optional(schema)]
  })
  return Object.fromEntries(entries)
}

/** The values of fields in a query; null for those that are absent. */
export function fromQuery<F extends SimpleFields>(fields: F, query: object): BodyOf<F> {
  const given = new Map<string, unknown>(Object.entries(query))
  const values = Object.keys(fields).map((name) => [name, given.get(queryName(name)) ?? null])
  return Object.fromEntries(values)
}

/** The schema of a kind of value in a request. An `object` has its schema beside the code that reads it. */
export function schemaOf(form: SimpleForm): TSchema {
  switch (form.is) {
    case 'text':
      return Type.String({
        ...(form.min !== undefined && { minLength: form.min }),
        ...(form.max !== undefined && { maxLength: form.max }),
        ...(form.pattern !== undefined && { pattern: form.pattern }),
      })
    case 'display':
      return displayName(form.max)
    case 'name':
      return Type.String({ minLength: 1, maxLength: form.max, pattern: namePattern })
    case 'uid':
      return Type.String({ minLength: 1, maxLength: 256, pattern: uidPattern(form.prefix) })
    case 'integer':
    case 'duration':
      return integer(form.min, form.max)
    case 'choice':
      return Type.Enum([...form.words])
    case 'boolean':
      return Type.Boolean()
    case 'instant':
      return dateTime
    case 'list':
      return Type.Array(schemaOf(form.of), {
        ...(form.empty !== true && { minItems: 1 }),
        maxItems: form.max,
        ...(form.unique === true && { uniqueItems: true }),
      })
    case 'labels':
      return Labels
    case 'headers':
      return Headers
  }
}

const bounds =
  /^(minLength|maxLength|pattern|minimum|maximum|minItems|maxItems|uniqueItems|maxProperties|additionalProperties)$/

/** The schema of the same value in an answer: without bounds, and with every property present. */
export function shown(schema: TSchema): TSchema {
  const entries = Object.entries(schema).filter(([keyword]) => !bounds.test(keyword))
  const kept = entries.map(([keyword, value]): [string, unknown] => {
    if (keyword === 'items') return [keyword, shown(value)]
    if (keyword === 'anyOf') return [keyword, value.map(shown)]
    if (keyword === 'properties') return [keyword, mapValues(value as Schemas, shown)]
    if (keyword === 'patternProperties') return [keyword, { '^.*$': shown(Object.values(value as Schemas)[0] ?? {}) }]
    return [keyword, value]
  })
  const { properties } = schema as { readonly properties?: Schemas }
  return Object.fromEntries(properties === undefined ? kept : [...kept, ['required', Object.keys(properties)]])
}

type Schemas = Readonly<Record<string, TSchema>>

function mapValues<V, W>(record: Readonly<Record<string, V>>, map: (value: V) => W): Record<string, W> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]))
}
