import { type Static, Type } from 'typebox'
import { eventTypeName } from '../api/event-type-schema.ts'
import { integer } from './field.ts'

/** What sends an example of an event type. */
export const EventExampleIn = Type.Object({
  eventType: eventTypeName,
  /** Which of the schema's own examples, the first when it is missing. */
  exampleIndex: Type.Optional(integer(0, 10_000)),
})
export type EventExampleIn = Static<typeof EventExampleIn>
