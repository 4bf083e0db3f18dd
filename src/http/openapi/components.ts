import type { TSchema } from 'typebox'
import { fieldDescriptions } from './field-descriptions.ts'

/** Schemas in the document: those with a name stand once under `components` and are referred to everywhere else. */
export class Components {
  readonly #names: ReadonlyMap<TSchema, string>

  constructor(named: Readonly<Record<string, TSchema>>) {
    this.#names = new Map(Object.entries(named).map(([name, schema]) => [schema, name]))
  }

  /** All of them, by name. */
  all(): Record<string, unknown> {
    const entries = [...this.#names].map(([schema, name]) => [name, this.#write(schema, name)] as const)
    return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  /** A schema as the document writes it where it is used. */
  use(schema: TSchema): unknown {
    const name = this.#names.get(schema)
    return name === undefined ? this.#write(schema) : { $ref: `#/components/schemas/${name}` }
  }

  #write(schema: unknown, shape = ''): unknown {
    if (Array.isArray(schema)) return schema.map((item) => this.#inner(item, shape))
    if (typeof schema !== 'object' || schema === null) return schema
    const written = Object.entries(schema).map(([key, value]) => {
      return [key, key === 'properties' ? this.#fields(value, shape) : this.#inner(value, shape)]
    })
    return Object.fromEntries(written)
  }

  #fields(properties: Readonly<Record<string, unknown>>, shape: string): unknown {
    const written = Object.entries(properties).map(([name, field]) => {
      const description = fieldDescriptions[`${shape}.${name}`] ?? fieldDescriptions[name]
      const its = this.#inner(field, shape) as object
      return [name, description === undefined || 'description' in its ? its : { ...its, description }]
    })
    return Object.fromEntries(written)
  }

  #inner(value: unknown, shape: string): unknown {
    if (typeof value !== 'object' || value === null) return value
    return this.#names.has(value as TSchema) ? this.use(value as TSchema) : this.#write(value, shape)
  }
}
