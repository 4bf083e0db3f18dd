import type { TSchema } from 'typebox'
import { AppError, type FieldError } from '../domain/app-error.ts'
import { type EpochMs, parseInstant } from '../domain/clock.ts'
import type { Scanner } from '../json/scan.ts'
import { compileCheck, countOf, Findings, fieldsLimit, type Keywords } from './schema-check.ts'
import { type IgnoredFields, UnknownNames } from './unknown-names.ts'

/** Which part of a request a value stands in; the first step of every path in an error. */
export type RequestPart = 'body' | 'query'

const none: readonly FieldError[] = []

/** Lists the problems of a value, and adds the fields of it that mean nothing here to `ignored`. */
export type ProblemsOf = (value: unknown, ignored?: IgnoredFields) => readonly FieldError[]

/**
 * Compiles a schema into a function that lists the problems of a value; empty when there is none. It takes time linear in
 * the size of the value and lists at most `fieldsLimit` problems; a last entry counts the others.
 */
export function compile(schema: TSchema, part: RequestPart): ProblemsOf {
  const check = compileCheck(schema)
  // Kept between calls while it stays empty, so that a valid request allocates nothing.
  let found = new Findings([part])
  return (value, ignored) => {
    check(value, found)
    if (found.isEmpty && found.ignored.isEmpty) return none
    const done = found
    found = new Findings([part])
    ignored?.addAll(done.ignored)
    return done.list()
  }
}

/** Throws AppError `validation` when there are problems. It lists the first and counts the others. */
export function refuseIf(problems: readonly FieldError[], message = 'Some fields are not valid.'): void {
  if (problems.length > 0) throw new AppError('validation', message, capped(problems))
}

function capped(problems: readonly FieldError[]): readonly FieldError[] {
  if (problems.length <= fieldsLimit + 1) return problems
  return [...problems.slice(0, fieldsLimit), countOf(problems.length - fieldsLimit)]
}

/** Reads instants that have the right shape; throws AppError when one is no day of any calendar, such as February 31. */
export function readInstants<Name extends string>(
  part: RequestPart,
  values: Readonly<Partial<Record<Name, string | null | undefined>>>,
): Record<Name, EpochMs | undefined> {
  const problems: FieldError[] = []
  const instants: Record<string, EpochMs | undefined> = {}
  for (const [name, value] of Object.entries<string | null | undefined>(values)) {
    const at = value === undefined || value === null ? undefined : parseInstant(value)
    if (Number.isNaN(at)) problems.push({ at: [part, name], message: 'is not an instant', type: 'instant' })
    instants[name] = at
  }
  refuseIf(problems)
  return instants as Record<Name, EpochMs | undefined>
}

/** An instant may be this much older than allowed, so that a client with another clock can ask for the full time. */
export const toleranceMs = 5 * 60 * 1000

/** The unknown parameters that are refused: all of them, or those that resemble a known one. */
export type UnknownParameters = 'refused' | 'slips'

/**
 * Compiles the reading of a query. It turns the texts into the types that the schema asks for; a text that cannot be turned
 * stays, and is refused. A list may be repeated, have brackets (`a[]`, `a[0]`) or commas, in any mixture. One value alone
 * may have brackets, and is refused when it is repeated. It answers the values and their problems.
 */
export function queryReader(schema: TSchema | undefined, unknownOnes: UnknownParameters) {
  const { properties = {} } = (schema ?? {}) as Keywords
  const problemsOf = schema === undefined ? () => none : compile(schema, 'query')
  const unknownNames = new UnknownNames('parameter', Object.keys(properties))
  return (query: unknown, ignored: IgnoredFields) => {
    const values: Record<string, unknown> = {}
    const unknown: FieldError[] = []
    for (const [name, texts] of textsByName(query)) {
      if (Object.hasOwn(properties, name)) {
        values[name] = typed(properties[name]?.type, texts)
        continue
      }
      const message =
        unknown.length >= fieldsLimit || unknownOnes === 'refused'
          ? unknownNames.refusal(unknown.length >= fieldsLimit ? '' : name)
          : unknownNames.slip(name)
      if (message === undefined) ignored.add(['query'], name)
      else unknown.push({ at: ['query', name], message, type: 'unknown' })
    }
    const problems = problemsOf(values)
    return [values, unknown.length > 0 ? [...problems, ...unknown] : problems] as const
  }
}

function textsByName(query: unknown): ReadonlyMap<string, readonly string[]> {
  const given = new Map<string, string[]>()
  for (const [written, texts] of Object.entries((query ?? {}) as Record<string, string | string[]>)) {
    const name = written.replace(/\[\d*\]$/, '')
    given.set(name, [...(given.get(name) ?? []), ...[texts].flat()])
  }
  return given
}

function typed(type: unknown, texts: readonly string[]): unknown {
  if (type === 'array') return texts.flatMap((text) => text.split(','))
  const [text = '', ...others] = texts
  if (others.length > 0) return texts
  if (type === 'integer' && /^-?\d{1,15}$/.test(text)) return Number(text)
  return type === 'boolean' && (text === 'true' || text === 'false') ? text === 'true' : text
}

/** Changes a parsed body in place. */
type Change = (value: unknown) => void

/**
 * Compiles the removal of nulls from fields that may be absent but have no null of their own: there null means "not
 * given", as Svix takes it. Undefined when the schema has no such field.
 */
export function nullsRemover(schema: TSchema): Change | undefined {
  const { properties = {}, required = [], items } = schema as Keywords
  const ofItem = items && nullsRemover(items)
  if (ofItem !== undefined) return (value) => Array.isArray(value) && value.forEach(ofItem)
  const entries = Object.entries(properties)
  const removable = entries.flatMap(([name, field]) => (required.includes(name) || takesNull(field) ? [] : [name]))
  const inner = entries.flatMap(([name, field]) => {
    const change = nullsRemover(field)
    return change === undefined ? [] : [{ name, change }]
  })
  if (removable.length === 0 && inner.length === 0) return undefined
  return (value) => {
    if (typeof value !== 'object' || value === null) return
    const object = value as Record<string, unknown>
    for (const name of removable) if (object[name] === null) delete object[name]
    for (const { name, change } of inner) if (Object.hasOwn(object, name)) change(object[name])
  }
}

function takesNull({ type = [], anyOf = [], enum: values = [] }: Keywords): boolean {
  return [type].flat().includes('null') || values.includes(null) || anyOf.some(takesNull)
}

/** Keys that mean something to JavaScript itself. No setting needs them, and merging one would change every object. */
const forbiddenKeys = new Set(['__proto__', 'constructor', 'prototype'])

/** Refuses a body in an encoding that is not read here: compressed, or in another character set than UTF-8. */
export function checkEncoding(contentType: string | undefined, contentEncoding: string | undefined): void {
  if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== 'identity') {
    throw new AppError('unsupported_media_type', `The content encoding ${contentEncoding} is not supported.`)
  }
  if (contentType === undefined || contentType === 'application/json') return
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(contentType)?.[1]
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    throw new AppError('unsupported_media_type', `The character set ${charset} is not supported; send UTF-8.`)
  }
}

/** Reads a body that describes something to keep. Throws AppError when it is no acceptable JSON. */
export function readJson(scanner: Scanner, body: Buffer): unknown {
  scanner.scan(body)
  return checkContents(JSON.parse(body.toString('utf8')))
}

/**
 * Refuses contents that JSON allows and Sluice cannot keep: keys that JavaScript treats specially, and texts that Postgres
 * cannot store (U+0000) or no encoding can carry (half a surrogate pair).
 */
export function checkContents(value: unknown): unknown {
  const found = new Findings(['body'])
  inspect(value, found)
  refuseIf(found.list(), 'Some texts cannot be stored.')
  return value
}

function inspect(value: unknown, found: Findings): void {
  if (typeof value === 'string') {
    if (!isStorable(value)) found.add('must not contain U+0000 or lone surrogates', 'text')
  } else if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) inspectPart(i, value[i], found)
  } else if (typeof value === 'object' && value !== null) {
    for (const key of Object.keys(value)) {
      if (forbiddenKeys.has(key)) throw new AppError('forbidden_key', `The key ${key} is not allowed.`)
      if (!isStorable(key)) found.add('has a key with U+0000 or lone surrogates', 'text')
      inspectPart(key, (value as Record<string, unknown>)[key], found)
    }
  }
}

function inspectPart(step: string | number, value: unknown, found: Findings): void {
  found.at.push(step)
  inspect(value, found)
  found.at.pop()
}

function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}
