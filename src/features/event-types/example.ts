import { isObject, type JsonObject } from '../../domain/json-object.ts'

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
