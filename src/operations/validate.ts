import type { TSchema } from 'typebox'
import { AppError, type FieldError } from '../domain/app-error.ts'
import { compileCheck, countOf, Findings, fieldsLimit } from './schema-check.ts'

/** Which part of a request a value stands in; the first step of every path in an error. */
export type Part = 'body' | 'query'

const none: readonly FieldError[] = []

/**
 * Compiles a schema into a function that lists the problems of a value; empty when there is none. It takes time linear in
 * the size of the value and lists at most `fieldsLimit` problems; a last entry counts the others.
 */
export function compile(schema: TSchema, part: Part): (value: unknown) => readonly FieldError[] {
  const check = compileCheck(schema)
  // Kept between calls while it stays empty, so that a valid request allocates nothing.
  let found = new Findings([part])
  return (value) => {
    check(value, found)
    if (found.isEmpty) return none
    const problems = found.list()
    found = new Findings([part])
    return problems
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

interface QuerySchema {
  readonly properties?: Readonly<Record<string, { readonly type?: unknown }>>
  readonly additionalProperties?: boolean
}

/** Turns the texts of a query string into the types that the schema asks for; a text that cannot be turned stays, and is refused. */
export function readQuery(schema: TSchema, query: unknown): Record<string, unknown> {
  const { properties = {}, additionalProperties } = schema as QuerySchema
  const isClosed = additionalProperties === false
  const values: Record<string, unknown> = {}
  for (const [name, text] of Object.entries(query as Record<string, unknown>)) {
    if (!Object.hasOwn(properties, name) && !isClosed) continue
    const type = Object.hasOwn(properties, name) ? properties[name]?.type : undefined
    if (type === 'integer' && typeof text === 'string' && /^-?\d{1,15}$/.test(text)) values[name] = Number(text)
    else if (type === 'boolean' && (text === 'true' || text === 'false')) values[name] = text === 'true'
    else values[name] = text
  }
  return values
}
