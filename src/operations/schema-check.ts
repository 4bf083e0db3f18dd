import type { TSchema } from 'typebox'
import type { FieldError } from '../domain/app-error.ts'
import { patternMeanings } from './fields.ts'
import { IgnoredFields, UnknownNames } from './unknown-names.ts'

/** Problems that one answer lists. The rest is counted. */
export const fieldsLimit = 20
/** Unknown fields of one body that are compared with the known ones. Comparing takes up to 10 µs. */
const comparedNames = 100
/** A pattern describes something short: a longer text does not match, and no regular expression runs over it. */
const patternTextLimit = 4096

/** The problems found so far, and the path to the value that is being checked. */
export class Findings {
  readonly at: (string | number)[]
  readonly problems: FieldError[] = []
  more = 0
  readonly ignored = new IgnoredFields()

  constructor(at: readonly (string | number)[]) {
    this.at = [...at]
  }

  add(message: string, type: string): void {
    if (this.problems.length < fieldsLimit) this.problems.push({ at: [...this.at], message, type })
    else this.more++
  }

  addAt(step: string | number, message: string, type: string): void {
    this.at.push(step)
    this.add(message, type)
    this.at.pop()
  }

  get isEmpty(): boolean {
    return this.problems.length === 0
  }

  /** The problems, with a last entry that counts those beyond the limit. */
  list(): readonly FieldError[] {
    return this.more === 0 ? this.problems : [...this.problems, countOf(this.more)]
  }
}

/** The last entry of a list that was cut. */
export function countOf(more: number): FieldError {
  return { at: [], message: `and ${more} more ${more === 1 ? 'problem' : 'problems'}`, type: 'more' }
}

/** Checks a value against a schema and adds every problem to the findings. */
type Check = (value: unknown, found: Findings) => void

/** The keywords of the request schemas. Another keyword is refused at start, so that none is ignored in silence. */
export interface Keywords {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Keywords[]
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: Keywords
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  readonly properties?: Readonly<Record<string, Keywords>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean
  readonly patternProperties?: Readonly<Record<string, Keywords>>
  readonly maxProperties?: number
}

const known = new Set(
  (
    'type enum const anyOf minLength maxLength pattern minimum maximum items minItems maxItems uniqueItems properties ' +
    'required additionalProperties patternProperties maxProperties title description default examples deprecated format'
  ).split(' '),
)

/** The pattern of the keys of a record with any keys. */
const anyKey = '^.*$'

/**
 * Compiles a schema. Checking takes time linear in the size of the value, whatever the value is: a container beyond its
 * bound is reported and not looked into, a text beyond its bound meets no pattern, equal items are found by a set, and
 * each alternative of a choice is tried once.
 */
export function compileCheck(schema: TSchema): Check {
  return checkOf(schema as Keywords)
}

function checkOf(schema: Keywords): Check {
  for (const keyword of Object.keys(schema)) {
    if (!known.has(keyword)) throw new Error(`request schemas cannot have the keyword ${keyword}`)
  }
  if (schema.anyOf !== undefined) return choiceCheck(schema.anyOf)
  const types = typesOf(schema)
  const inner = innerCheck(schema)
  return (value, found) => {
    if (types.length > 0 && !types.some((type) => isOfType(value, type))) {
      found.add(`must be ${types.length === 1 ? types[0] : `either ${types.join(' or ')}`}`, 'type')
    } else inner(value, found)
  }
}

/** The check for a value that is of the right type. */
function innerCheck(schema: Keywords): Check {
  const { enum: allowed } = schema
  if (allowed !== undefined) {
    const values = new Set(allowed)
    const sentence = `must be ${oneOf(allowed.map((value) => JSON.stringify(value)))}`
    return (value, found) => {
      if (!values.has(value)) found.add(sentence, 'enum')
    }
  }
  if ('const' in schema) {
    return (value, found) => {
      if (value !== schema.const) found.add(`must be ${JSON.stringify(schema.const)}`, 'const')
    }
  }
  const ofText = textCheck(schema)
  const ofNumber = numberCheck(schema)
  const ofArray = arrayCheck(schema)
  const ofObject = objectCheck(schema)
  return (value, found) => {
    if (typeof value === 'string') ofText(value, found)
    else if (typeof value === 'number') ofNumber(value, found)
    else if (Array.isArray(value)) ofArray(value, found)
    else if (typeof value === 'object' && value !== null) ofObject(value as Record<string, unknown>, found)
  }
}

function textCheck({ minLength = 0, maxLength = Infinity, pattern }: Keywords) {
  const regexp = pattern === undefined ? undefined : new RegExp(pattern, 'u')
  const mismatch = pattern === undefined ? '' : (patternMeanings.get(pattern) ?? `must match pattern "${pattern}"`)
  return (text: string, found: Findings): void => {
    if (isLongerThan(text, maxLength)) found.add(`must not have more than ${maxLength} characters`, 'maxLength')
    else if (minLength > 0 && !isLongerThan(text, minLength - 1)) {
      found.add(`must not have fewer than ${minLength} characters`, 'minLength')
    } else if (regexp !== undefined && (text.length > patternTextLimit || !regexp.test(text))) {
      found.add(mismatch, 'pattern')
    }
  }
}

function numberCheck({ minimum = -Infinity, maximum = Infinity }: Keywords) {
  return (value: number, found: Findings): void => {
    if (value < minimum) found.add(`must be >= ${minimum}`, 'minimum')
    else if (value > maximum) found.add(`must be <= ${maximum}`, 'maximum')
  }
}

function arrayCheck({ items, minItems = 0, maxItems = Infinity, uniqueItems = false }: Keywords) {
  const ofItem = items === undefined ? undefined : checkOf(items)
  if (uniqueItems && (items === undefined || !isScalar(items))) throw new Error('unique items must be scalars')
  return (list: readonly unknown[], found: Findings): void => {
    if (list.length > maxItems) return found.add(`must not have more than ${maxItems} items`, 'maxItems')
    if (list.length < minItems) found.add(`must not have fewer than ${minItems} items`, 'minItems')
    if (uniqueItems && new Set(list).size < list.length) found.add('must not have duplicate items', 'uniqueItems')
    if (ofItem === undefined) return
    for (let i = 0; i < list.length; i++) {
      found.at.push(i)
      ofItem(list[i], found)
      found.at.pop()
    }
  }
}

function objectCheck({
  properties = {},
  required = [],
  additionalProperties,
  patternProperties,
  maxProperties = Infinity,
}: Keywords) {
  const named = new Map(Object.entries(properties).map(([name, schema]) => [name, checkOf(schema)]))
  const ofOther = patternProperties === undefined ? undefined : recordCheck(patternProperties)
  const unknownNames = new UnknownNames('field', [...named.keys()])
  const unknown = (name: string, found: Findings): void => {
    // An object without fields of its own may hold anything.
    if (additionalProperties === undefined || (additionalProperties && named.size === 0)) return
    if (found.problems.length >= fieldsLimit) return found.addAt(name, '', 'unknown')
    const problem = additionalProperties
      ? unknownNames.slip(name, found.ignored.count < comparedNames)
      : unknownNames.refusal(name)
    if (problem === undefined) found.ignored.add(found.at, name)
    else found.addAt(name, problem, 'unknown')
  }
  return (object: Readonly<Record<string, unknown>>, found: Findings): void => {
    for (const name of required) {
      if (!Object.hasOwn(object, name) || object[name] === undefined) found.addAt(name, 'is required', 'required')
    }
    const names = Object.keys(object)
    if (names.length > maxProperties) {
      return found.add(`must not have more than ${maxProperties} properties`, 'maxProperties')
    }
    for (const name of names) {
      const value = object[name]
      if (value === undefined) continue
      const check = named.get(name)
      if (check === undefined && ofOther === undefined) {
        unknown(name, found)
        continue
      }
      found.at.push(name)
      if (check !== undefined) check(value, found)
      else ofOther?.(name, value, found)
      found.at.pop()
    }
  }
}

/** Checks an entry of a record: its key, then its value. */
function recordCheck(patternProperties: Readonly<Record<string, Keywords>>) {
  const [entry, ...others] = Object.entries(patternProperties)
  if (entry === undefined || others.length > 0) throw new Error('a record has one pattern for its keys')
  const [pattern, schema] = entry
  const ofKey = pattern === anyKey ? undefined : textCheck({ pattern })
  const ofValue = checkOf(schema)
  return (key: string, value: unknown, found: Findings): void => {
    ofKey?.(key, found)
    ofValue(value, found)
  }
}

/**
 * A value that may have one of several forms. When it has the type and the constants of exactly one, the problems are
 * those of that form; the problems of the others would only confuse.
 */
function choiceCheck(forms: readonly Keywords[]): Check {
  const checks = forms.map((schema) => ({ schema, check: checkOf(schema) }))
  return (value, found) => {
    const meant: Findings[] = []
    for (const { schema, check } of checks) {
      const own = new Findings(found.at)
      check(value, own)
      if (own.isEmpty) {
        found.ignored.addAll(own.ignored)
        return
      }
      if (isMeant(schema, value)) meant.push(own)
    }
    const [only] = meant
    if (meant.length === 1 && only !== undefined) {
      for (const { at, message, type } of only.problems) {
        if (found.problems.length < fieldsLimit) found.problems.push({ at, message, type })
        else found.more++
      }
      found.more += only.more
    } else found.add(`must be ${oneOf([...new Set(forms.map((schema) => formOf(schema, value)))])}`, 'anyOf')
  }
}

/** Whether a value has the type of a form, and its constants. */
function isMeant(schema: Keywords, value: unknown): boolean {
  if (!typesOf(schema).some((type) => isOfType(value, type))) return false
  if ('const' in schema) return schema.const === value
  return constantsOf(schema).every(([name, constant]) => (value as Record<string, unknown>)[name] === constant)
}

/** A form in words, by the first thing that a value lacks to be of it. */
function formOf(schema: Keywords, value: unknown): string {
  if ('const' in schema) return JSON.stringify(schema.const)
  const [type = 'object'] = typesOf(schema)
  if (type === 'null') return 'null'
  const [constant] = isOfType(value, type) ? constantsOf(schema) : []
  if (constant !== undefined) return `an object with ${constant[0]} ${JSON.stringify(constant[1])}`
  return type === 'object' || type === 'array' ? `an ${type}` : `a ${type}`
}

/** The members of a form that have one value only. */
function constantsOf({ properties = {} }: Keywords): [string, unknown][] {
  return Object.entries(properties).flatMap(([name, schema]) => ('const' in schema ? [[name, schema.const]] : []))
}

function typesOf({ type = [] }: Keywords): readonly string[] {
  return typeof type === 'string' ? [type] : type
}

function isScalar(schema: Keywords): boolean {
  return schema.enum !== undefined || !typesOf(schema).some((type) => type === 'object' || type === 'array')
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value)
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    case 'integer':
      return Number.isInteger(value)
    case 'number':
      return Number.isFinite(value)
    default:
      return typeof value === type
  }
}

/** Whether a text has more characters (code points) than a limit; reads no further than that takes. */
function isLongerThan(text: string, limit: number): boolean {
  if (text.length <= limit) return false
  if (text.length > 2 * limit) return true
  let characters = 0
  for (const _character of text) if (++characters > limit) return true
  return false
}

function oneOf(texts: readonly string[]): string {
  return texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} or ${texts.at(-1)}`
}
