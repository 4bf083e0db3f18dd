import { type TSchema, Type } from 'typebox'
import type { Form } from '../domain/field.ts'
import { Headers, instantPattern, integer, Metadata, namePattern } from './fields.ts'

/** The schema of a kind of value in a request. An `object` has its schema beside the code that reads it. */
export function schemaOf(form: Exclude<Form, { readonly is: 'object' }>): TSchema {
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
        ...(form.unique && { uniqueItems: true }),
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
