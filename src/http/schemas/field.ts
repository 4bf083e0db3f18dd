import { type Static, type TSchema, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'

/**
 * For what says how much a caller means or what nobody is to see: a field that nobody knows is refused there, because to
 * ignore a name that was mistyped would be to do far more than was asked for.
 */
export const closed = { additionalProperties: false } as const

/** A uid that cannot be mistaken for an id of the same kind. */
export function uid(prefix: string) {
  return nullable(Type.String({ minLength: 1, maxLength: 256, pattern: `^(?!${prefix}_)[a-zA-Z0-9\\-_.]+$` }))
}

/**
 * The same value, or null. Written as a list of types, so that what is wrong is said of the value itself instead of
 * twice, once for each alternative.
 */
export function nullable<T extends TSchema>(schema: T) {
  const { type, anyOf, enum: values, ...rest } = schema as unknown as Written
  if (anyOf !== undefined) return Type.Unsafe<Static<T> | null>({ anyOf: [...anyOf, { type: 'null' }], ...rest })
  if (values !== undefined) return Type.Unsafe<Static<T> | null>({ enum: [...values, null], ...rest })
  return Type.Unsafe<Static<T> | null>({ type: [type, 'null'], ...rest })
}

interface Written {
  readonly type: string
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly unknown[]
}

/** A whole number within bounds that every store and every client can represent exactly. */
export function integer(minimum: number, maximum: number) {
  return Type.Integer({ minimum, maximum })
}

/** Labels of the caller's own: text to text. */
export const Metadata = Type.Record(Type.String(), Type.String())

const metadataBytesLimit = 4096

/** What is wrong with labels beyond their shape: they are for small things. */
export function metadataProblems(metadata: Readonly<Record<string, string>> | undefined): FieldError[] {
  if (metadata === undefined || Buffer.byteLength(JSON.stringify(metadata)) <= metadataBytesLimit) return []
  const message = `must not take up more than ${metadataBytesLimit} bytes as JSON`
  return [{ at: ['body', 'metadata'], message, type: 'maxBytes' }]
}
