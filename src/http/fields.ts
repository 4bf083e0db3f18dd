import { type Static, type TSchema, Type } from 'typebox'
import type { EpochMs } from '../domain/clock.ts'
import { nullable } from './schemas/field.ts'

/** A field that may be left out, or be null. */
export function maybe<T extends TSchema>(schema: T) {
  return Type.Optional(nullable(schema))
}

/** The same schema with a description of its own. */
export function described<T extends TSchema>(schema: T, description: string) {
  return Type.Unsafe<Static<T>>({ ...schema, description })
}

/** An instant in an answer, RFC 3339. */
export function instant(description: string) {
  return Type.String({ format: 'date-time', description })
}

export const id = Type.String({ description: 'Unique id, assigned by the server.' })
export const createdAt = instant('Time of creation.')
export const updatedAt = instant('Time of the last change.')

/** An instant as answers write it. */
export function iso(at: EpochMs): string {
  return new Date(at).toISOString()
}

export function isoOrNull(at: EpochMs | null): string | null {
  return at === null ? null : iso(at)
}
