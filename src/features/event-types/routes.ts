import { type Static, Type } from 'typebox'
import { AppError, type FieldError, noSuch } from '../../domain/app-error.ts'
import type { Clock } from '../../domain/clock.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import { Turns } from '../../domain/turns.ts'
import { toChange, toNew } from '../../noun/noun.ts'
import { schemasOf, toShown } from '../../noun/schemas.ts'
import { admin, viewShared } from '../../operations/access.ts'
import { closed, listOf, maybe, nameText, nullable, optional, text } from '../../operations/fields.ts'
import { jsonSchemaProblems } from '../../operations/json-schema.ts'
import { found, isRef, lookUp } from '../../operations/lookup.ts'
import { byName, fromItem, matches, PageQuery, paginate, searchFor } from '../../operations/page.ts'
import { type Incoming, type Noun, type Out, Reply, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { compile, readJson, refuseIf } from '../../operations/validate.ts'
import { readYaml } from '../../operations/yaml.ts'
import type { PageRequest, Store } from '../../store/store.ts'
import { type EventType, eventType, isShownTo, type NewEventType } from './noun.ts'
import { eventTypesOf } from './openapi.ts'

const { made, replaced, changed, shown } = schemasOf(eventType, {
  schemas: {
    given: Type.Record(Type.String(), Type.Record(Type.String(), Type.Unknown()), { maxProperties: 100 }),
    shown: Type.Object({}, { additionalProperties: true }),
  },
})
const older = { featureFlag: maybe(nameText, "Svix's older field for the first of `featureFlags`.") }

const EventTypeIn = Type.Object({ ...made, ...older }, closed)
/** Replaces an event type: a field that is absent goes back to its default. */
const EventTypeUpdate = Type.Object({ ...replaced, ...older }, closed)
/** Changes an event type: a field that is absent stays, null unsets. */
const EventTypePatch = Type.Object({ ...changed, ...older }, closed)

const EventTypeOut = Type.Object({
  ...shown,
  featureFlag: nullable(text("Svix's older field for the first of featureFlags.")),
})
/** An event type as an import shows it before there is one. */
const EventTypeFromOpenApi = Type.Omit(EventTypeOut, ['archived', 'featureFlag', 'createdAt', 'updatedAt'])

const EventTypeQuery = Type.Object({
  ...PageQuery.properties,
  search: searchFor('Only event types whose name or description contains this text, in any case.'),
  include_archived: optional(Type.Boolean(), 'Whether archived event types are listed.'),
  with_content: optional(Type.Boolean(), 'Whether payloads and answers are included.'),
})

const DeleteQuery = Type.Object({
  expunge: optional(Type.Boolean(), 'Whether the event type is deleted for good instead of archived.'),
})

/** Imports the webhooks of an OpenAPI document: one of `spec` and `specRaw`. */
const EventTypeImportOpenApiIn = Type.Object(
  {
    spec: maybe(
      Type.Record(Type.String(), Type.Unknown(), {
        description: 'OpenAPI document whose webhooks become event types.',
      }),
    ),
    specRaw: maybe(text('The same as text, JSON or YAML.')),
    dryRun: optional(Type.Boolean(), 'Whether changes are only reported, not made.'),
    replaceAll: optional(Type.Boolean(), 'Whether event types that are not in the document are archived.'),
  },
  closed,
)

const EventTypeImportOpenApiOutData = Type.Object({
  modified: Type.Array(Type.String()),
  to_modify: nullable(
    Type.Array(EventTypeFromOpenApi, { description: 'Event types that a dry run would have changed.' }),
  ),
})

const EventTypeImportOpenApiOut = Type.Object({ data: EventTypeImportOpenApiOutData })

const nameProblems = compile(Type.Object({ name: nameText }), 'body')
const eventTypeProblems = compile(EventTypeIn, 'body')

/** The same body without Svix's older field. */
function withoutOlder<Body extends Static<typeof EventTypePatch>>({ featureFlag, ...body }: Body) {
  if (featureFlag === undefined || body.featureFlags !== undefined) return body
  return { ...body, featureFlags: featureFlag === null ? null : [featureFlag] }
}

function toEventTypeOut(stored: EventType, withContent = true): Out<typeof EventTypeOut> {
  const all = toShown(eventType, stored)
  return { ...all, schemas: withContent ? all.schemas : null, featureFlag: all.featureFlags?.[0] ?? null }
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

function flagsOf({ caller }: Incoming): ReadonlySet<string> | null {
  return caller?.featureFlags ?? null
}

/** Problems of a webhook as an event type, named by its place in the document. */
function problemsOf(imported: NewEventType): FieldError[] {
  return eventTypeProblems(imported).map((problem) => ({
    ...problem,
    at: ['body', 'spec', 'webhooks', imported.name, ...problem.at.slice(1)],
  }))
}

async function readDocument(
  { scanner, clock }: Pick<Services, 'scanner' | 'clock'>,
  { spec, specRaw }: Static<typeof EventTypeImportOpenApiIn>,
): Promise<JsonObject> {
  if ((spec == null) === (specRaw == null)) {
    throw new AppError('invalid_request', 'Send either spec or specRaw.')
  }
  if (spec != null) return spec
  const text = specRaw ?? ''
  // JSON is YAML, too; the JSON parser is faster and describes mistakes better.
  const isJson = /^\s*[{[]/.test(text)
  const document = isJson ? readJson(scanner, Buffer.from(text)) : await readYaml(text, ['body', 'specRaw'], clock)
  if (typeof document === 'object' && document !== null && !Array.isArray(document)) return document as JsonObject
  throw new AppError('invalid_request', 'An OpenAPI document is an object.')
}

function toImportedOut({ archived: _archived, ...imported }: NewEventType): Out<typeof EventTypeFromOpenApi> {
  return imported
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
    EventTypeImportOpenApiIn,
    EventTypeImportOpenApiOut,
    EventTypeImportOpenApiOutData,
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
          const isShown = item !== undefined && isShownTo(flagsOf(request), item)
          return isShown ? places.write(item) : undefined
        })
        const { include_archived: archivedToo = false, with_content: withContent = false, search } = query
        const keep = async (rows: EventType[]) => ({
          kept: rows.filter(({ name, description }) => matches([name, description], search ?? '')),
          looked: rows.length,
        })
        return paginate(
          clock,
          { order: 'ascending', ...query },
          {
            ...places,
            list: (page: PageRequest<string>) => store.listEventTypes(page, archivedToo, flagsOf(request)),
            toOut: (row) => toEventTypeOut(row, withContent),
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
        return toEventTypeOut(await store.createEventType(toNew(eventType, withoutOlder(body))))
      },
    }),
    route('GET /event-type/:name', viewShared, {
      id: 'v1.event-type.get',
      summary: 'Get an event type',
      answers: { 200: EventTypeOut },
      handle: async ({ params: { name }, request }, { store }) => {
        const stored = await findEventType(store, name)
        if (!isShownTo(flagsOf(request), stored)) throw noSuch('event type', name)
        return toEventTypeOut(stored)
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
        const input = toNew(eventType, { ...withoutOlder(body), name: params.name })
        const { eventType: stored, created } = await store.putEventType(input)
        return new Reply(created ? 201 : 200, toEventTypeOut(stored))
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
        const stored = await store.updateEventType(name, toChange(eventType, withoutOlder(body)))
        return toEventTypeOut(found(stored, 'event type', name))
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
    route('POST /event-type/import/openapi', admin, {
      id: 'v1.event-type.import-openapi',
      summary: 'Import event types from the webhooks of an OpenAPI document',
      body: EventTypeImportOpenApiIn,
      answers: { 200: EventTypeImportOpenApiOut },
      handle: async ({ body }, services) => {
        const { dryRun = false, replaceAll = false } = body
        const imported = await Turns.by(services.clock).run(eventTypesOf(await readDocument(services, body)))
        refuseIf(imported.flatMap(problemsOf))
        const modified = imported.map(({ name }) => name)
        if (dryRun) return { data: { modified, to_modify: imported.map(toImportedOut) } }
        await services.store.importEventTypes(imported, replaceAll)
        return { data: { modified, to_modify: null } }
      },
    }),
  ],
} satisfies Noun
