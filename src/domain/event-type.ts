import { AppError } from './app-error.ts'
import type { EpochMs } from './clock.ts'
import type { Parts } from './turns.ts'

/** The description of an event type, for subscribers and for examples. */
export interface EventType {
  readonly name: string
  readonly description: string
  /** No longer offered. Endpoints that subscribe to it still get its messages. */
  readonly archived: boolean
  readonly deprecated: boolean
  /** JSON Schemas of the payload by version; the first version is `1`. */
  readonly schemas: Readonly<Record<string, JsonObject>> | null
  readonly featureFlags: readonly string[] | null
  readonly groupName: string | null
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
}

/** Whether a caller sees the event type: one without feature flags, or with one of the caller's. Null sees all. */
export function isShownTo(
  flags: ReadonlySet<string> | null,
  { featureFlags }: Pick<EventType, 'featureFlags'>,
): boolean {
  if (flags === null || featureFlags === null || featureFlags.length === 0) return true
  return featureFlags.some((flag) => flags.has(flag))
}

export type JsonObject = Readonly<Record<string, unknown>>

/** The schema of the newest version, by number. */
export function newestSchema(schemas: EventType['schemas']): JsonObject | undefined {
  const versions = Object.keys(schemas ?? {}).sort((a, b) => Number(a) - Number(b) || (a < b ? -1 : 1))
  const newest = versions.at(-1)
  return newest === undefined ? undefined : schemas?.[newest]
}

/** An event type as an OpenAPI document describes it. */
type ImportedEventType = Omit<EventType, 'createdAt' | 'updatedAt'>

const sharedSchemas = '#/components/schemas/'
/** Limit of the values of all schemas: every webhook gets a copy of each schema that it refers to. */
const valuesLimit = 100_000

/** The copies that an import makes, and the values that they may still have. */
interface Copies {
  valuesLeft: number
}

/**
 * The event types of an OpenAPI document: one for each of its webhooks (3.1: `webhooks`, before: `x-webhooks`). The schema
 * is that of the webhook's body, and contains the shared schemas that it refers to as `$defs`.
 */
export function* eventTypesOf(document: JsonObject): Parts<ImportedEventType[]> {
  const webhooks = objectAt(document, 'webhooks') ?? objectAt(document, 'x-webhooks') ?? {}
  const copies: Copies = { valuesLeft: valuesLimit }
  const eventTypes: ImportedEventType[] = []
  for (const [name, item] of Object.entries(webhooks)) {
    const operation = isObject(item) ? firstOperation(item) : undefined
    if (operation !== undefined) eventTypes.push(yield* eventTypeOf(name, operation, document, copies))
  }
  return eventTypes
}

function* eventTypeOf(
  name: string,
  operation: JsonObject,
  document: JsonObject,
  copies: Copies,
): Parts<ImportedEventType> {
  const schema = bodySchema(operation, document)
  return {
    name,
    description: textAt(operation, 'description') ?? textAt(operation, 'summary') ?? '',
    archived: false,
    deprecated: operation.deprecated === true,
    schemas: schema === undefined ? null : { '1': yield* standalone(schema, document, copies) },
    featureFlags: flagsOf(operation),
    groupName: textAt(operation, 'x-svix-group-name') ?? textAt(operation, 'x-group-name') ?? null,
  }
}

function firstOperation(item: JsonObject): JsonObject | undefined {
  for (const method of ['post', 'put', 'patch', 'get', 'delete']) {
    const operation = objectAt(item, method)
    if (operation) return operation
  }
  return undefined
}

function bodySchema(operation: JsonObject, document: JsonObject): JsonObject | undefined {
  const named = objectAt(operation, 'requestBody')
  const ref = named && textAt(named, '$ref')
  const body = ref?.startsWith('#/components/requestBodies/')
    ? objectAt(objectAt(objectAt(document, 'components'), 'requestBodies'), ref.slice(27))
    : named
  const content = objectAt(body, 'content')
  const media = objectAt(content, 'application/json') ?? (content && Object.values(content).find(isObject))
  return objectAt(media, 'schema')
}

/** A schema with all shared schemas that it refers to under `$defs`. */
function* standalone(schema: JsonObject, document: JsonObject, copies: Copies): Parts<JsonObject> {
  const shared = objectAt(objectAt(document, 'components'), 'schemas') ?? {}
  const defs: Record<string, unknown> = {}
  const waiting: string[] = []
  const own = rewritten(schema, waiting, copies) as JsonObject
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (Object.hasOwn(defs, name) || !Object.hasOwn(shared, name)) continue
    defs[name] = rewritten(shared[name], waiting, copies)
    yield
  }
  return Object.keys(defs).length === 0 ? own : { ...own, $defs: { ...objectAt(own, '$defs'), ...defs } }
}

/** The value with references to shared schemas changed to `$defs`; their names are added to `found`. */
function rewritten(value: unknown, found: string[], copies: Copies): unknown {
  if (copies.valuesLeft-- === 0) {
    const message = `The schemas of the webhooks, with the schemas that they refer to, have more than ${valuesLimit} values.`
    throw new AppError('payload_too_large', `${message} Import fewer webhooks at once.`)
  }
  if (Array.isArray(value)) return value.map((item) => rewritten(item, found, copies))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      if (key !== '$ref' || typeof item !== 'string' || !item.startsWith(sharedSchemas)) {
        return [key, rewritten(item, found, copies)]
      }
      const name = item.slice(sharedSchemas.length)
      found.push(name)
      return [key, `#/$defs/${name}`]
    }),
  )
}

function flagsOf(operation: JsonObject): string[] | null {
  const flags = operation['x-svix-feature-flags'] ?? operation['x-feature-flags']
  if (Array.isArray(flags)) return flags.filter((flag) => typeof flag === 'string')
  const flag = textAt(operation, 'x-svix-feature-flag') ?? textAt(operation, 'x-feature-flag')
  return flag === undefined ? null : [flag]
}

function objectAt(value: unknown, key: string): JsonObject | undefined {
  if (!isObject(value) || !Object.hasOwn(value, key)) return undefined
  const found = value[key]
  return isObject(found) ? found : undefined
}

function textAt(value: JsonObject, key: string): string | undefined {
  const found = value[key]
  return typeof found === 'string' ? found : undefined
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** How deep a schema that refers to itself is followed. */
const depthLimit = 8
/** An example has at most this many values: a schema that refers to itself twice doubles them at every level. */
export const exampleValuesLimit = 10_000
/** A longer reference is not followed. */
const refLengthLimit = 1000

/** The example would be too large. */
export class ExampleTooLarge extends Error {
  override readonly name = 'ExampleTooLarge'
}

/** The values and bytes that an example may still have. */
interface Room {
  values: number
  bytes: number
}

/**
 * An example value for a JSON Schema, to show it and to test a receiver with: the schema's own example, or else a value by
 * its keywords. The same schema always gives the same example.
 */
export function exampleOf(schema: JsonObject, index = 0, bytesLimit = 1024 * 1024): unknown {
  const { examples } = schema
  const room = { values: exampleValuesLimit, bytes: bytesLimit }
  if (Array.isArray(examples) && examples.length > 0) {
    return fitting(examples[Math.min(index, examples.length - 1)], room)
  }
  return valueFor(schema, { schema, room }, 0)
}

/** The whole schema, and the room that is left for its example. */
interface Root {
  readonly schema: JsonObject
  readonly room: Room
}

/** A value of the schema itself, if there is room for it. References may repeat it any number of times. */
function fitting<T>(given: T, room: Room): T {
  room.bytes -= JSON.stringify(given)?.length ?? 0
  if (room.bytes < 0) throw new ExampleTooLarge()
  return given
}

function valueFor(schema: unknown, root: Root, depth: number): unknown {
  if (--root.room.values < 0) throw new ExampleTooLarge()
  if (!isObject(schema) || depth > depthLimit) return null
  for (const given of [schema.example, first(schema.examples), schema.const, schema.default, first(schema.enum)]) {
    if (given !== undefined) return fitting(given, root.room)
  }
  if (typeof schema.$ref === 'string') return valueFor(resolve(schema.$ref, root.schema), root, depth + 1)
  if (Array.isArray(schema.allOf)) return merged(schema, schema.allOf, root, depth)
  const choice = first(schema.oneOf) ?? first(schema.anyOf)
  if (choice !== undefined) return valueFor(choice, root, depth + 1)
  return valueOfType(schema, root, depth)
}

function valueOfType(schema: JsonObject, root: Root, depth: number): unknown {
  switch (typeOf(schema)) {
    case 'object':
      return objectFor(schema, root, depth)
    case 'array':
      return schema.items === undefined ? [] : [valueFor(schema.items, root, depth + 1)]
    case 'string':
      return fitting(textFor(schema), root.room)
    case 'integer':
      return Math.ceil(lowest(schema))
    case 'number':
      return lowest(schema)
    case 'boolean':
      return true
    default:
      return null
  }
}

function typeOf(schema: JsonObject): unknown {
  const { type } = schema
  if (Array.isArray(type)) return type.find((name) => name !== 'null')
  return type ?? (isObject(schema.properties) ? 'object' : undefined)
}

function objectFor(schema: JsonObject, root: Root, depth: number): Record<string, unknown> {
  const properties = isObject(schema.properties) ? schema.properties : {}
  return Object.fromEntries(
    Object.entries(properties).map(([name, property]) => [
      fitting(name, root.room),
      valueFor(property, root, depth + 1),
    ]),
  )
}

/** The properties of all parts in one object, or the first part's value when they are not objects. */
function merged(schema: JsonObject, parts: readonly unknown[], root: Root, depth: number): unknown {
  const values = parts.map((part) => valueFor(part, root, depth + 1))
  if (!values.every(isObject)) return values[0] ?? null
  return Object.assign({}, ...values, objectFor(schema, root, depth))
}

const formats: Readonly<Record<string, string>> = {
  'date-time': '2026-01-01T00:00:00Z',
  date: '2026-01-01',
  time: '00:00:00Z',
  email: 'user@example.com',
  uri: 'https://example.com/',
  url: 'https://example.com/',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uuid: '00000000-0000-4000-8000-000000000000',
}

function textFor({ format, minLength }: JsonObject): string {
  const text = (typeof format === 'string' && formats[format]) || 'string'
  return text.padEnd(typeof minLength === 'number' ? Math.min(minLength, 1000) : 0, '.')
}

function lowest({ minimum, exclusiveMinimum, maximum }: JsonObject): number {
  if (typeof minimum === 'number') return minimum
  if (typeof exclusiveMinimum === 'number') return exclusiveMinimum + 1
  return typeof maximum === 'number' ? Math.min(0, maximum) : 0
}

/** Follows a reference within the same document, such as `#/$defs/User`. */
function resolve(ref: string, root: JsonObject): unknown {
  if (!ref.startsWith('#') || ref.length > refLengthLimit) return undefined
  return ref
    .split('/')
    .slice(1)
    .map((step) => decoded(step).replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((value, step) => (isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined), root)
}

/** A step of a reference without its escapes; unchanged when they are invalid. */
function decoded(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch (error) {
    if (!(error instanceof URIError)) throw error
    return step
  }
}

function first(list: unknown): unknown {
  return Array.isArray(list) ? list[0] : undefined
}
