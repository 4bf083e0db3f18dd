import type { EventType } from '../domain/event-type.ts'
import type { Page, PageRequest } from './page.ts'

/** The kinds of events that are known. Publishing does not ask for them; subscribing does, once there are any. */
export interface EventTypes {
  /** Rejects with AppError `event_type_exists` unless the name is new or archived; an archived one is replaced. */
  createEventType(input: NewEventType): Promise<EventType>
  /** Replaces the event type of that name, or makes it. */
  putEventType(input: NewEventType): Promise<{ readonly eventType: EventType; readonly created: boolean }>
  updateEventType(name: string, change: Partial<Omit<NewEventType, 'name'>>): Promise<EventType | undefined>
  /** Answers whether there was one. */
  deleteEventType(name: string): Promise<boolean>
  findEventType(name: string): Promise<EventType | undefined>
  /** By name, in the order of its bytes; those that a caller with these feature flags sees, null for all. */
  listEventTypes(
    page: PageRequest<string>,
    includeArchived: boolean,
    flags?: ReadonlySet<string> | null,
  ): Promise<Page<EventType>>
  /** Replaces or makes all of these at once; with `replaceAll` every other one is archived. */
  importEventTypes(inputs: readonly NewEventType[], replaceAll: boolean): Promise<void>
  /**
   * The event types among these names. Undefined as long as there is no event type at all, unless `always` is set.
   */
  eventTypesAmong(names: readonly string[], always?: boolean): Promise<readonly EventTypeSummary[] | undefined>
  /** The first names of event types that are not archived, in the order of their bytes, as by `listEventTypes`. */
  eventTypeNames(limit: number, flags?: ReadonlySet<string> | null): Promise<string[]>
}

export type EventTypeSummary = Pick<EventType, 'name' | 'archived' | 'featureFlags'>
export type NewEventType = Omit<EventType, 'createdAt' | 'updatedAt'>
