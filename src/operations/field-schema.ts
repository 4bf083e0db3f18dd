import { type TOptional, type TSchema, type TUnsafe, Type } from 'typebox'
import { instantPattern } from '../domain/clock.ts'
import { type Kind, queryName, type SimpleForm } from '../domain/field.ts'
import { described, Headers, integer, Metadata, maybe, namePattern } from './fields.ts'

/** Fields without an object among them, such as a filter. */
type SimpleFields = Readonly<Record<string, { readonly kind: Kind; readonly description: string }>>

/** The values of fields in a body, where null is as good as absent. */
export type BodyOf<F extends SimpleFields> = {
  readonly [Name in keyof F]?: (F[Name]['kind'] extends Kind<infer T> ? T : never) | null
}

/** The schemas of fields in a body. */
export function inBody(fields: SimpleFields): Record<string, TSchema> {
  const entries = Object.entries(fields).map(([name, { kind, description }]) => {
    return [name, maybe(described(schemaOf(kind), description))] as const
  })
  return Object.fromEntries(entries)
}

type QuerySchemas<F extends SimpleFields> = {
  [Name in keyof F & string as QueryName<Name>]: TOptional<
    TUnsafe<F[Name]['kind'] extends Kind<readonly string[]> ? string[] : string>
  >
}

/** The type of `queryName`. */
type QueryName<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${QueryName<Rest>}`
  : Name

/** A list in a query. */
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
      })
    case 'name':
      return Type.String({ minLength: 1, maxLength: form.max, pattern: namePattern })
    case 'uid':
      return Type.String({ minLength: 1, maxLength: 256, pattern: `^(?!${form.prefix}_)[a-zA-Z0-9\\-_.]+$` })
    case 'integer':
    case 'duration':
      return integer(form.min, form.max)
    case 'choice':
      return Type.Enum([...form.words])
    case 'boolean':
      return Type.Boolean()
    case 'instant':
      return Type.String({ pattern: instantPattern })
    case 'list':
      return Type.Array(schemaOf(form.of), {
        minItems: 1,
        maxItems: form.max,
      })
    case 'labels':
      return Metadata
    case 'headers':
      return Headers
  }
}

const bounds = new Set(
  'minLength maxLength pattern minimum maximum minItems maxItems uniqueItems maxProperties additionalProperties'.split(
    ' ',
  ),
)

/** The schema of the same value in an answer: without bounds, and with every property present. */
export function shown(schema: TSchema): TSchema {
  const entries = Object.entries(schema).filter(([keyword]) => !bounds.has(keyword))
  const kept = entries.map(([keyword, value]): [string, unknown] => {
    if (keyword === 'items') return [keyword, shown(value)]
    if (keyword === 'anyOf') return [keyword, value.map(shown)]
    if (keyword === 'properties') return [keyword, eachShown(value)]
    if (keyword === 'patternProperties') return [keyword, { '^.*$': shown(Object.values(value as Schemas)[0] ?? {}) }]
    return [keyword, value]
  })
  const { properties } = schema as { readonly properties?: Schemas }
  return Object.fromEntries(properties === undefined ? kept : [...kept, ['required', Object.keys(properties)]])
}

type Schemas = Readonly<Record<string, TSchema>>

function eachShown(schemas: Schemas): Schemas {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, shown(schema)]))
}
