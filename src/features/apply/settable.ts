import { isSame } from '../../domain/field.ts'
import { nearest } from '../../domain/phrases.ts'
import { application } from '../applications/noun.ts'
import { endpointFields } from '../endpoints/noun.ts'
import { eventType } from '../event-types/noun.ts'
import { schedule } from '../schedules/noun.ts'
import { source } from '../sources/noun.ts'

/** The part of a declaration that is read here. */
interface Declared {
  readonly kind: unknown
  readonly fallback?: unknown
  /** How many of the domain's units are one of the API's. */
  readonly times?: number
}

/** Fields by name, with the values of a thing that sets none. */
function own(fields: Readonly<Record<string, Declared>>, ...more: readonly string[]): ReadonlyMap<string, unknown> {
  const declared = Object.entries(fields).map(([name, { fallback, times = 1 }]) => {
    return [name, typeof fallback === 'number' ? fallback / times : fallback] as const
  })
  return new Map([...declared, ...more.map((name) => [name, undefined] as const)])
}

/** The fields that a request may set, of each kind of thing. */
const settable = {
  eventTypes: own(eventType.fields),
  applications: own(application.fields),
  endpoints: own(endpointFields, 'secret'),
  sources: own(source.fields, 'secret'),
  schedules: own(schedule.fields, 'payload', 'bodyBase64'),
} as const

/** Whether a field may be set. */
export function isSettable(kind: keyof typeof settable, field: string): boolean {
  return settable[kind].has(field)
}

/** Whether a field has the value of a thing that does not set it. */
export function isDefault(kind: keyof typeof settable, field: string, value: unknown): boolean {
  return value === null || isSame(settable[kind].get(field), value)
}

/** A sentence about a field that cannot be set. */
export function unknownField(kind: keyof typeof settable, field: string): string {
  const meant = nearest(field, [...settable[kind].keys()])
  return `unknown field${meant === undefined ? '.' : `; did you mean ${meant}?`}`
}
