import { type TSchema, Type } from 'typebox'
import { nullable } from '../schemas/field.ts'

/** An instant, RFC 3339. */
export const Instant = Type.String({ format: 'date-time' })

/** An instant that may not be known. */
export const MaybeInstant = nullable(Instant)

/** Labels of the caller's own. */
export const Labels = Type.Record(Type.String(), Type.String())

/** One page of a list. */
export function listOf<T extends TSchema>(item: T) {
  return Type.Object({
    data: Type.Array(item),
    iterator: nullable(Type.String({ description: 'Pass it to get the next page; set even on the last page.' })),
    prevIterator: nullable(Type.String({ description: 'Pass it as `iterator` to get the page before.' })),
    done: Type.Boolean({ description: 'Whether this is the last page.' }),
  })
}

/** A public id such as `app_2b…`. */
export function idOf(prefix: string) {
  return Type.String({ pattern: `^${prefix}_[0-9A-Za-z]{27}$` })
}
