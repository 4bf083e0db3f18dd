import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { spoiled, valuesOf } from '../http/from-schema.ts'

/** A route of the API as docs/openapi.json describes it, with bodies for it. */
export interface Operation {
  readonly method: string
  /** With the prefix, and the names of its parameters in braces. */
  readonly path: string
  /** The parameters of the query that it cannot do without. */
  readonly query: readonly string[]
  readonly takesBody: boolean
  readonly type: string
  /** Bodies that the schema allows, and bodies with something in them that it does not. */
  readonly bodies: readonly string[]
  readonly spoiled: readonly string[]
}

// biome-ignore lint/suspicious/noExplicitAny: the document is any JSON, and a field that is missing fails the reading.
type Node = any

const methods = ['get', 'post', 'put', 'patch', 'delete']
const samples = 30

/** Every operation of the API, with bodies from a seed. */
export function readOperations(seed: number): Operation[] {
  const text = readFileSync(join(import.meta.dirname, '../../docs/openapi.json'), 'utf8')
  const document: Node = JSON.parse(text)
  return Object.entries<Node>(document.paths).flatMap(([path, item]) =>
    methods.filter((method) => method in item).map((method) => operationOf(document, path, method, item[method], seed)),
  )
}

function operationOf(document: Node, path: string, method: string, operation: Node, seed: number): Operation {
  const [type = 'application/json', content] = Object.entries<Node>(operation.requestBody?.content ?? {})[0] ?? []
  const { contentSchema, ...text } = content?.schema ?? {}
  const schema = resolved(document, contentSchema ?? text, 0)
  const values = valuesOf(schema)
  const sample = (arbitrary: fc.Arbitrary<unknown>) =>
    fc.sample(arbitrary, { numRuns: samples, seed }).map((value) => JSON.stringify(value) ?? 'null')
  return {
    method: method.toUpperCase(),
    path,
    query: (operation.parameters ?? [])
      .filter((parameter: Node) => parameter.in === 'query' && parameter.required)
      .map((parameter: Node) => `${parameter.name}=video.trending`),
    takesBody: operation.requestBody !== undefined,
    type: type === '*/*' ? 'application/json' : type,
    bodies: sample(values),
    spoiled: sample(spoiled(values)),
  }
}

/** A schema without references; one that refers to itself ends after a few levels. */
function resolved(document: Node, node: Node, depth: number): Node {
  if (depth > 30) return {}
  if (Array.isArray(node)) return node.map((one) => resolved(document, one, depth + 1))
  if (typeof node !== 'object' || node === null) return node
  if (typeof node.$ref === 'string') {
    const target = node.$ref
      .split('/')
      .slice(1)
      .reduce((at: Node, name: string) => at[name], document)
    return resolved(document, target, depth + 1)
  }
  return Object.fromEntries(Object.entries(node).map(([name, one]) => [name, resolved(document, one, depth + 1)]))
}
