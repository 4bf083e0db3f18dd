import { Type } from 'typebox'
import { optional } from './fields.ts'

/** The parameter of a list that is searched. */
export function searchFor(description: string) {
  return optional(Type.String({ minLength: 1, maxLength: 256 }), description)
}

/** Whether one of the names contains a text, in any case. */
export function matches(names: readonly (string | null)[], text: string): boolean {
  const wanted = text.toLowerCase()
  return names.some((name) => name?.toLowerCase().includes(wanted))
}
