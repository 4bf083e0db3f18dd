import { once } from 'node:events'
import { type Static, Type } from 'typebox'
import { startThread } from '../../assets/assets.ts'
import { AppError, type FieldError } from '../../domain/app-error.ts'
import type { Clock } from '../../domain/clock.ts'
import { eventTypesOf, type JsonObject } from '../../domain/event-type.ts'
import { Turns } from '../../domain/turns.ts'
import type { NewEventType } from '../../store/configuration.ts'
import { admin } from '../access.ts'
import { closed, described, flag, maybe, nameText, nullable, optional, text, texts } from '../fields.ts'
import type { Parts } from '../parts.ts'
import { type Out, route } from '../route.ts'
import { checkContents, compile, readJson, refuseIf } from '../validate.ts'
import type { Parsed } from '../yaml-thread.ts'

export const description = Type.String({ maxLength: 65_536, description: 'Free text.' })

/** The fields that creating, replacing and changing an event type have in common. */
export const fields = {
  archived: optional(Type.Boolean(), 'Whether the event type is hidden.'),
  deprecated: optional(Type.Boolean(), 'Whether the event type should no longer be used.'),
  schemas: maybe(
    Type.Record(Type.String(), Type.Record(Type.String(), Type.Unknown()), {
      maxProperties: 100,
      description: 'JSON Schemas of the payload by version, such as `{"1": {"type": "object"}}`.',
    }),
  ),
  featureFlags: maybe(
    Type.Array(nameText, {
      maxItems: 100,
      uniqueItems: true,
      description: 'Feature flags: only portal tokens with one of them see the event type; null for all.',
    }),
  ),
  featureFlag: maybe(nameText, "Svix's older field for the first of `featureFlags`."),
  groupName: maybe(nameText, "Kept for Svix's clients."),
}

export const EventTypeIn = Type.Object(
  {
    name: described(nameText, 'Dotted name such as `video.trending`.'),
    description,
    ...fields,
  },
  closed,
)

export const EventTypeFromOpenApi = Type.Object({
  name: text('Dotted name such as `video.trending`.'),
  description: text('Free text.'),
  deprecated: flag('Whether the event type should no longer be used.'),
  schemas: nullable(
    Type.Object({}, { additionalProperties: true, description: 'JSON Schemas of the payload, by version' }),
  ),
  groupName: nullable(text("Kept for Svix's clients.")),
  featureFlags: texts("Kept for Svix's clients."),
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

const eventTypeProblems = compile(EventTypeIn, 'body')

/** Problems of a webhook as an event type, named by its place in the document. */
function problemsOf(eventType: NewEventType): FieldError[] {
  return eventTypeProblems(eventType).map((problem) => ({
    ...problem,
    at: ['body', 'spec', 'webhooks', eventType.name, ...problem.at.slice(1)],
  }))
}

async function readDocument(
  { scanner, clock }: Pick<Parts, 'scanner' | 'clock'>,
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

/** An event type as an import shows it before there is one. */
function toImportedOut(eventType: NewEventType): Out<typeof EventTypeFromOpenApi> {
  const { name, description, schemas, deprecated, groupName, featureFlags } = eventType
  return { name, description, schemas, deprecated, groupName, featureFlags }
}

export const eventTypeImport = {
  schemas: { EventTypeImportOpenApiIn, EventTypeImportOpenApiOut, EventTypeImportOpenApiOutData },
  routes: [
    route('POST /event-type/import/openapi', admin, {
      id: 'v1.event-type.import-openapi',
      summary: 'Import event types from the webhooks of an OpenAPI document',
      body: EventTypeImportOpenApiIn,
      answers: { 200: EventTypeImportOpenApiOut },
      handle: async ({ body }, parts) => {
        const { dryRun = false, replaceAll = false } = body
        const eventTypes = await Turns.by(parts.clock).run(eventTypesOf(await readDocument(parts, body)))
        refuseIf(eventTypes.flatMap(problemsOf))
        const modified = eventTypes.map(({ name }) => name)
        if (dryRun) return { data: { modified, to_modify: eventTypes.map(toImportedOut) } }
        await parts.store.importEventTypes(eventTypes, replaceAll)
        return { data: { modified, to_modify: null } }
      },
    }),
  ],
}

const lengthLimit = 1024 * 1024
/** A document of the full length takes about two seconds, a hostile one far longer. */
const timeLimitMs = 10_000
const resourceLimits = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }

/** The document before this one: the process parses one at a time, because a thread takes up to 256 MB. */
let last: Promise<unknown> = Promise.resolve()

/**
 * Reads YAML 1.2 as the JSON that it stands for. Rejects with AppError, with the line, when the text is no YAML or stands
 * for too much. A thread parses it, because the library cannot be interrupted: a hostile text takes seconds or any amount
 * of memory, and then only the thread ends.
 */
export async function readYaml(text: string, at: readonly string[], clock: Clock): Promise<unknown> {
  if (text.length > lengthLimit) {
    throw new AppError('payload_too_large', `YAML must not be longer than ${lengthLimit} characters; send JSON.`)
  }
  const parsing = last.then(() => parseApart(text, clock))
  last = parsing.catch(() => {})
  const parsed = await parsing
  if ('json' in parsed) return checkContents(JSON.parse(parsed.json))
  throw new AppError('validation', 'Some fields are not valid.', [{ at, message: parsed.problem, type: 'yaml' }])
}

async function parseApart(text: string, clock: Clock): Promise<Parsed> {
  const thread = startThread('operations/yaml-thread', { workerData: text, resourceLimits })
  const late = Promise.withResolvers<[Parsed]>()
  const cancel = clock.after(timeLimitMs, () =>
    late.resolve([{ problem: `takes longer than ${timeLimitMs / 1000} s to parse; send JSON` }]),
  )
  try {
    const [parsed] = (await Promise.race([once(thread, 'message'), late.promise])) as [Parsed]
    return parsed
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error
    return { problem: 'takes too much memory to parse; send JSON' }
  } finally {
    cancel()
    await thread.terminate()
  }
}
