import type { FieldError } from '../domain/app-error.ts'
import { isObject, type JsonObject } from '../domain/json-object.ts'
import type { Sliced } from '../domain/turns.ts'

/**
 * The keywords of JSON Schema 2020-12 and draft 7 whose values have one form, by the kind of the value. Other keywords may
 * have any value.
 */
const keywords = {
  schema:
    'additionalProperties additionalItems contains else if not propertyNames then unevaluatedItems unevaluatedProperties',
  schemas: 'allOf anyOf oneOf prefixItems',
  named: '$defs definitions dependentSchemas patternProperties properties',
  types: 'type',
  texts: 'required',
  list: 'enum examples',
  text: '$anchor $comment $id $ref $schema contentEncoding contentMediaType description format title',
  flag: 'deprecated readOnly uniqueItems writeOnly',
  number: 'maximum minimum multipleOf',
  count: 'maxContains maxItems maxLength maxProperties minContains minItems minLength minProperties',
  pattern: 'pattern',
}
type Keyword = keyof typeof keywords
const kinds: ReadonlyMap<string, Keyword> = new Map(
  Object.entries(keywords).flatMap(([kind, names]) => names.split(' ').map((name) => [name, kind as Keyword])),
)

const types = new Set(['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'])
const problemsLimit = 20
const perTurn = 500

/** A part of a schema that is a schema itself, and how it is reached; a path is written out for a problem alone. */
interface Inner {
  readonly within: Inner | undefined
  readonly steps: readonly (string | number)[]
  readonly value: unknown
}

/**
 * Lists the places where a value is no JSON Schema, up to twenty. It checks the form of a schema, not its sense: a reference
 * may lead nowhere. The work is linear in the size of the value, and yields.
 */
export function* jsonSchemaProblems(schema: unknown, at: readonly (string | number)[]): Sliced<FieldError[]> {
  const problems: FieldError[] = []
  const waiting: Inner[] = [{ within: undefined, steps: at, value: schema }]
  let steps = 0
  for (let next = waiting.pop(); next !== undefined && problems.length < problemsLimit; next = waiting.pop()) {
    const { value } = next
    if (typeof value === 'boolean') continue
    if (!isObject(value)) problems.push(problem(next, [], 'must be a JSON Schema: an object or a boolean'))
    else {
      for (const inner of innerSchemas(value, next, problems)) {
        waiting.push(inner)
        if (++steps % perTurn === 0) yield
      }
    }
    if (++steps % perTurn === 0) yield
  }
  return problems
}

/** The schemas within a schema. Adds the problems of its other keywords. */
function* innerSchemas(schema: JsonObject, within: Inner, problems: FieldError[]): Generator<Inner> {
  for (const [name, value] of Object.entries(schema)) {
    const kind = name === 'items' ? (Array.isArray(value) ? 'schemas' : 'schema') : kinds.get(name)
    if (kind === 'schema') yield { within, steps: [name], value }
    else if ((kind === 'schemas' && Array.isArray(value)) || (kind === 'named' && isObject(value))) {
      for (const [key, each] of Object.entries(value as object)) yield { within, steps: [name, key], value: each }
    } else if (kind !== undefined) {
      const message = complaint(kind, value)
      if (message !== undefined) problems.push(problem(within, [name], message))
    }
  }
}

function complaint(kind: Keyword, value: unknown): string | undefined {
  switch (kind) {
    case 'types':
      return isType(value) ? undefined : `must be ${[...types].join(', ')} or a list of them`
    case 'texts':
      return Array.isArray(value) && value.every((each) => typeof each === 'string') ? undefined : 'must be texts'
    case 'list':
      return Array.isArray(value) ? undefined : 'must be an array'
    case 'text':
      return typeof value === 'string' ? undefined : 'must be a text'
    case 'flag':
      return typeof value === 'boolean' ? undefined : 'must be a boolean'
    case 'number':
      return typeof value === 'number' ? undefined : 'must be a number'
    case 'count':
      return Number.isInteger(value) && (value as number) >= 0 ? undefined : 'must be a whole number, 0 or more'
    case 'pattern':
      return isRegExp(value) ? undefined : 'must be a regular expression'
    case 'schemas':
      return 'must be an array of schemas'
    default:
      return 'must be an object of schemas'
  }
}

function isType(value: unknown): boolean {
  if (!Array.isArray(value)) return typeof value === 'string' && types.has(value)
  return value.length > 0 && value.every((each) => typeof each === 'string' && types.has(each))
}

/** Whether the text can be compiled. It is compiled without being run. */
function isRegExp(value: unknown): boolean {
  if (typeof value !== 'string') return false
  try {
    new RegExp(value)
    return true
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}

function problem(within: Inner, steps: readonly string[], message: string): FieldError {
  const at: (string | number)[] = [...steps]
  for (let part: Inner | undefined = within; part !== undefined; part = part.within) at.unshift(...part.steps)
  return { at, message, type: 'schema' }
}
