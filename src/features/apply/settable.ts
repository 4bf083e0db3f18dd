import { nearest } from '../../domain/phrases.ts'
import { application } from '../applications/noun.ts'
import { endpointFields } from '../endpoints/noun.ts'
import { eventType } from '../event-types/noun.ts'
import { schedule } from '../schedules/noun.ts'
import { source } from '../sources/noun.ts'

const own = (fields: object, ...more: readonly string[]): readonly string[] => [...Object.keys(fields), ...more]

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
  return settable[kind].includes(field)
}

/** A sentence about a field that cannot be set. */
export function unknownField(kind: keyof typeof settable, field: string): string {
  const meant = nearest(field, settable[kind])
  return `unknown field${meant === undefined ? '.' : `; did you mean ${meant}?`}`
}
