import { type Static, Type } from 'typebox'
import { noSuch } from '../../domain/app-error.ts'
import type { Clock } from '../../domain/clock.ts'
import { type EventType, isShownTo } from '../../domain/event-type.ts'
import { defined } from '../../domain/field.ts'
import { Turns } from '../../domain/turns.ts'
import type { NewEventType } from '../../store/configuration.ts'
import type { PageRequest, Store } from '../../store/store.ts'
import { admin, viewShared } from '../access.ts'
import { closed, createdAt, flag, iso, listOf, nameText, nullable, optional, text, updatedAt } from '../fields.ts'
import { jsonSchemaProblems } from '../json-schema.ts'
import { found, isRef, lookUp } from '../lookup.ts'
import { byName, fromItem, matches, PageQuery, paginate, searchFor } from '../page.ts'
import { type Noun, type Out, Reply, route } from '../route.ts'
import { compile, refuseIf } from '../validate.ts'
import { description, EventTypeFromOpenApi, EventTypeIn, eventTypeImport, fields } from './event-type-import.ts'

/** Replaces an event type: a field that is absent goes back to its default. */
const EventTypeUpdate = Type.Object({ description, ...fields }, closed)

/** Changes an event type: a field that is absent stays, null unsets. */
const EventTypePatch = Type.Object({ description: optional(description, 'Free text.'), ...fields }, closed)

const EventTypeQuery = Type.Object({
  ...PageQuery.properties,
  search: searchFor('Only event types whose name or description contains this text, in any case.'),
  include_archived: optional(Type.Boolean(), 'Whether archived event types are listed.'),
  with_content: optional(Type.Boolean(), 'Whether payloads and answers are included.'),
})

const DeleteQuery = Type.Object({
  expunge: optional(Type.Boolean(), 'Whether the event type is deleted for good instead of archived.'),
})

const EventTypeOut = Type.Object({
  ...EventTypeFromOpenApi.properties,
  archived: flag('Whether the event type is hidden.'),
  featureFlag: nullable(text("Svix's older field for the first of featureFlags.")),
  createdAt,
  updatedAt,
})

const nameProblems = compile(Type.Object({ name: nameText }), 'body')

function toNewEventType(name: string, input: Static<typeof EventTypeUpdate>): NewEventType {
  return {
    name,
    archived: false,
    deprecated: false,
    schemas: null,
    featureFlags: null,
    groupName: null,
    ...toEventTypeChange(input),
    description: input.description,
  }
}

function toEventTypeChange(input: Static<typeof EventTypePatch>): Partial<Omit<NewEventType, 'name'>> {
  const { description, archived, deprecated, schemas, groupName, featureFlag } = input
  const oneFlag = featureFlag == null ? featureFlag : [featureFlag]
  const featureFlags = input.featureFlags === undefined ? oneFlag : input.featureFlags
  return defined({ description, archived, deprecated, schemas, groupName, featureFlags })
}

function toEventTypeOut(eventType: EventType, withContent = true): Out<typeof EventTypeOut> {
  return {
    name: eventType.name,
    description: eventType.description,
    archived: eventType.archived,
    deprecated: eventType.deprecated,
    schemas: withContent ? eventType.schemas : null,
    featureFlag: eventType.featureFlags?.[0] ?? null,
    featureFlags: eventType.featureFlags,
    groupName: eventType.groupName,
    createdAt: iso(eventType.createdAt),
    updatedAt: iso(eventType.updatedAt),
  }
}

const places = byName('evtype')

async function refuseWrongSchemas({ schemas }: Static<typeof EventTypePatch>, clock: Clock): Promise<void> {
  for (const [version, schema] of Object.entries(schemas ?? {})) {
    refuseIf(await Turns.by(clock).run(jsonSchemaProblems(schema, ['body', 'schemas', version])))
  }
}

function findEventType(store: Store, name: string): Promise<EventType> {
  return lookUp('event type', name, store.findEventType)
}

export const eventTypes = {
  tag: 'Event Type',
  description:
    'A dotted name such as `video.trending`, with a schema if it has one. Endpoints also subscribe to `video.*` and `*`.',
  schemas: {
    EventTypeIn,
    EventTypeUpdate,
    EventTypePatch,
    EventTypeOut,
    EventTypeFromOpenApi,
    ...eventTypeImport.schemas,
  },
  routes: [
    route('GET /event-type', viewShared, {
      id: 'v1.event-type.list',
      summary: 'List event types',
      description: 'By name. Schemas come only with `with_content`.',
      query: EventTypeQuery,
      answers: { 200: listOf(EventTypeOut) },
      handle: async ({ query: asked, request }, { store, clock }) => {
        const query = await fromItem(asked, async (name) => {
          const item = isRef(name) ? await store.findEventType(name) : undefined
          const isShown = item !== undefined && isShownTo(request.caller?.featureFlags ?? null, item)
          return isShown ? places.write(item) : undefined
        })
        const { include_archived: archivedToo = false, with_content: withContent = false, search } = query
        const flags = request.caller?.featureFlags ?? null
        const keep = async (rows: EventType[]) => ({
          kept: rows.filter(({ name, description }) => matches([name, description], search ?? '')),
          looked: rows.length,
        })
        return paginate(
          clock,
          { order: 'ascending', ...query },
          {
            ...places,
            list: (page: PageRequest<string>) => store.listEventTypes(page, archivedToo, flags),
            toOut: (eventType) => toEventTypeOut(eventType, withContent),
            // A schema may be large.
            rowsAtOnce: search === undefined ? 8 : 32,
            ...(search !== undefined && { keep }),
          },
        )
      },
    }),
    route('POST /event-type', admin, {
      id: 'v1.event-type.create',
      summary: 'Create an event type',
      description: 'An archived event type of the same name is restored.',
      body: EventTypeIn,
      answers: { 201: EventTypeOut },
      handle: async ({ body }, { store, clock }) => {
        await refuseWrongSchemas(body, clock)
        return toEventTypeOut(await store.createEventType(toNewEventType(body.name, body)))
      },
    }),
    route('GET /event-type/:name', viewShared, {
      id: 'v1.event-type.get',
      summary: 'Get an event type',
      answers: { 200: EventTypeOut },
      handle: async ({ params: { name }, request }, { store }) => {
        const eventType = await findEventType(store, name)
        if (!isShownTo(request.caller?.featureFlags ?? null, eventType)) throw noSuch('event type', name)
        return toEventTypeOut(eventType)
      },
    }),
    route('PUT /event-type/:name', admin, {
      id: 'v1.event-type.update',
      summary: 'Replace an event type, or create it',
      body: EventTypeUpdate,
      answers: { 200: EventTypeOut, 201: EventTypeOut },
      handle: async ({ params, body }, { store, clock }) => {
        refuseIf(nameProblems(params))
        await refuseWrongSchemas(body, clock)
        const { eventType, created } = await store.putEventType(toNewEventType(params.name, body))
        return new Reply(created ? 201 : 200, toEventTypeOut(eventType))
      },
    }),
    route('PATCH /event-type/:name', admin, {
      id: 'v1.event-type.patch',
      summary: 'Change some fields of an event type',
      description: 'Absent fields stay; null unsets.',
      body: EventTypePatch,
      answers: { 200: EventTypeOut },
      handle: async ({ params: { name }, body }, { store, clock }) => {
        await findEventType(store, name)
        await refuseWrongSchemas(body, clock)
        return toEventTypeOut(found(await store.updateEventType(name, toEventTypeChange(body)), 'event type', name))
      },
    }),
    route('DELETE /event-type/:name', admin, {
      id: 'v1.event-type.delete',
      summary: 'Archive an event type, or delete it',
      description: 'With `expunge` it is deleted; without, it is hidden until it is created again.',
      query: DeleteQuery,
      answers: { 204: null },
      handle: async ({ params: { name }, query: { expunge = false } }, { store }) => {
        await findEventType(store, name)
        return expunge ? store.deleteEventType(name) : store.updateEventType(name, { archived: true })
      },
    }),
    ...eventTypeImport.routes,
  ],
} satisfies Noun
