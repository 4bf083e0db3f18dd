import { AppError } from '../../domain/app-error.ts'
import { isObject, type JsonObject } from '../../domain/json-object.ts'
import type { Sliced } from '../../domain/turns.ts'
import type { NewEventType } from './noun.ts'

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
export function* eventTypesOf(document: JsonObject): Sliced<NewEventType[]> {
  const webhooks = objectAt(document, 'webhooks') ?? objectAt(document, 'x-webhooks') ?? {}
  const copies: Copies = { valuesLeft: valuesLimit }
  const eventTypes: NewEventType[] = []
  for (const [name, item] of Object.entries(webhooks)) {
    const operation = isObject(item) ? firstOperation(item) : undefined
    if (operation !== undefined) eventTypes.push(yield* eventTypeOf(name, operation, document, copies))
  }
  return eventTypes
}

function* eventTypeOf(name: string, operation: JsonObject, document: JsonObject, copies: Copies): Sliced<NewEventType> {
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
function* standalone(schema: JsonObject, document: JsonObject, copies: Copies): Sliced<JsonObject> {
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
