import type { TSchema } from 'typebox'

/** Schemas in the document: those with a name stand once under `components` and are referred to everywhere else. */
export class Components {
  readonly #names: ReadonlyMap<TSchema, string>

  constructor(named: Readonly<Record<string, TSchema>>) {
    this.#names = new Map(Object.entries(named).map(([name, schema]) => [schema, name]))
  }

  /** All of them, by name. */
  all(): Record<string, unknown> {
    const entries = [...this.#names].map(([schema, name]) => [name, this.#write(schema)] as const)
    return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  /** A schema as the document writes it where it is used. */
  use(schema: TSchema): unknown {
    const name = this.#names.get(schema)
    return name === undefined ? this.#write(schema) : { $ref: `#/components/schemas/${name}` }
  }

  #write(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map((item) => this.#inner(item))
    if (typeof schema !== 'object' || schema === null) return schema
    return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, this.#inner(value)]))
  }

  #inner(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    return this.#names.has(value as TSchema) ? this.use(value as TSchema) : this.#write(value)
  }
}
