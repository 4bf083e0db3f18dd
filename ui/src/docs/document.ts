import { apiRoot } from '../../../src/domain/api.ts'

/** The OpenAPI document of the server, as far as the reference shows it. */

export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
  /** The schema of each line of a text. */
  readonly contentSchema?: Schema
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly pattern?: string
  readonly format?: string
}

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly description?: string
  readonly schema: Schema
  readonly example?: unknown
}

export type Content = Readonly<Record<string, { readonly schema: Schema; readonly example?: unknown }>>

interface Answer {
  readonly $ref?: string
  readonly description?: string
  readonly content?: Content
}

interface Described {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly tags: readonly string[]
  readonly security: readonly { readonly key: readonly string[] }[]
  readonly parameters: readonly Parameter[]
  readonly requestBody?: { readonly required: boolean; readonly content: Content }
  readonly responses: Readonly<Record<string, Answer>>
}

export interface Operation extends Described {
  /** Its place on the page: `v1-message-create`. */
  readonly anchor: string
  readonly method: string
  readonly path: string
  /** The text that a search looks at. */
  readonly words: string
}

export interface ErrorCode {
  readonly code: string
  readonly remedy: string
}

export interface Reference {
  readonly title: string
  readonly version: string
  readonly description: string
  readonly groups: readonly {
    readonly name: string
    readonly description: string
    readonly operations: readonly Operation[]
  }[]
  readonly schemas: Readonly<Record<string, Schema>>
  /** The codes of each status. */
  readonly errors: Readonly<Record<string, readonly ErrorCode[]>>
}

interface Document {
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly responses: Readonly<Record<string, { readonly 'x-codes'?: readonly ErrorCode[] }>>
  }
}

export function anchorOf(text: string): string {
  return text.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
}

/** Reads the document of this server; it needs no key. */
export async function loadReference(): Promise<Reference> {
  const response = await fetch(`${apiRoot}/openapi.json`)
  if (!response.ok) throw new Error(`The server answered ${response.status}.`)
  return referenceOf((await response.json()) as Document)
}

export function referenceOf({ info, tags, paths, components }: Document): Reference {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => {
      const names = described.parameters.map(({ name }) => name).join(' ')
      const fields = Object.values(described.requestBody?.content ?? {}).flatMap(({ schema }) =>
        Object.keys(resolve(schema, components.schemas).properties ?? {}),
      )
      const { summary, operationId, description = '' } = described
      const text = [summary, operationId, method, path, description, names, ...fields]
      return {
        ...described,
        method: method.toUpperCase(),
        path,
        anchor: anchorOf(operationId),
        words: text.join(' ').toLowerCase(),
      }
    }),
  )
  return {
    ...info,
    groups: tags.map((tag) => ({ ...tag, operations: operations.filter((each) => each.tags.includes(tag.name)) })),
    schemas: components.schemas,
    errors: Object.fromEntries(
      Object.entries(components.responses).map(([status, { 'x-codes': codes = [] }]) => [status, codes]),
    ),
  }
}

/** The schema that a reference names. */
export function resolve(schema: Schema, schemas: Reference['schemas']): Schema {
  if (schema.contentSchema !== undefined) return resolve(schema.contentSchema, schemas)
  return schema.$ref === undefined ? schema : (schemas[nameOf(schema.$ref)] ?? {})
}

export function nameOf(reference: string): string {
  return reference.slice(reference.lastIndexOf('/') + 1)
}

/** Operations that have every word of a search, those with all of them in the summary first. */
export function search(reference: Reference, text: string): readonly Operation[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean)
  const found = reference.groups
    .flatMap(({ operations }) => operations)
    .filter(({ words }) => wanted.every((word) => words.includes(word)))
  const rank = ({ summary, path, operationId }: Operation) => {
    const near = `${summary} ${path} ${operationId}`.toLowerCase()
    return wanted.every((word) => summary.toLowerCase().includes(word))
      ? 0
      : wanted.every((word) => near.includes(word))
        ? 1
        : 2
  }
  return found.toSorted((a, b) => rank(a) - rank(b))
}

/** Values for the parts of a request. */
export interface Values {
  readonly path: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  /** As it is sent; undefined where the operation takes none. */
  readonly body: string | undefined
  readonly contentType: string
}

/** The example of an operation. */
export function exampleOf({ parameters, requestBody }: Operation): Values {
  const valuesIn = (place: string) =>
    Object.fromEntries(
      parameters
        .filter((each) => each.in === place && each.example !== undefined)
        .map(({ name, example }) => [name, String(example)]),
    )
  const [[contentType, { example }] = ['application/json', { example: undefined }]] = Object.entries(
    requestBody?.content ?? {},
  )
  const body =
    example === undefined ? undefined : typeof example === 'string' ? example : JSON.stringify(example, null, 2)
  return { path: valuesIn('path'), query: valuesIn('query'), body, contentType }
}
