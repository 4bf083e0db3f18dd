/**
 * Gives a name to every object, every union and every choice of words of the OpenAPI document. Generators make a class of
 * each named schema; of a nameless one they make `InlineResponse17`, and another class of the same fields elsewhere.
 *
 * A name says where a schema stands: `circuit` of `EndpointIn` is `EndpointCircuitIn`. Where the same schema stands in
 * several places, the shortest of their names is taken; `better` has those that read badly, or that two schemas would share.
 */

type Json = Readonly<Record<string, unknown>>

interface Parts {
  readonly paths: Json
  readonly webhooks: Json
  readonly schemas: Readonly<Record<string, Json>>
}

/** Better names, by one that the rule makes. Those that Svix's document has, too, are as there. */
const better: ReadonlyMap<string, string> = new Map([
  ['AlertFiringEventData', 'AlertEventData'],
  ['ApplicationListOrder', 'Ordering'],
  ['BulkExpungeContentsResultsValue', 'BulkExpungeContentsResult'],
  ['DeadLineReason', 'DeadLetterReason'],
  ['EndpointCreatedEventData', 'EndpointEventData'],
  ['EndpointListAllSort', 'EndpointSort'],
  ['EndpointRetryRetryAfter', 'EndpointRetryAfter'],
  ['ErasureState', 'BackgroundTaskState'],
  ['HealthCacheOut', 'HealthPartOut'],
  ['HealthCacheStatus', 'HealthStatus'],
  ['HistoryGetRange', 'HistoryRange'],
  ['HistorySeriesWaitMsOut', 'PercentileSeriesOut'],
  ['HistoryTotalsWaitMsOut', 'PercentilesOut'],
  ['LaneLimitsRateFrom', 'LimitOrigin'],
  ['LaneLiveProcessOut', 'SlotsOut'],
  ['LaneWhyAllSort', 'WhySort'],
  ['LeaderLeaderOut', 'LeaderProcessOut'],
  ['MessageAttemptFailingEventData', 'MessageAttemptEventData'],
  ['MessageAttemptFailingEventDataLastAttempt', 'MessageAttemptEventLastAttempt'],
  ['MessageAttemptStatus', 'MessageStatus'],
  ['MessageAttemptStatusText', 'MessageStatusText'],
  ['MessageListDeliveryStatus', 'DeliveryStatus'],
  ['ScheduleLastRunState', 'ScheduleRunState'],
  ['ScheduleLastRunTrigger', 'ScheduleRunTrigger'],
  ['SourceCreatedSecretOut', 'SourceSecretStateOut'],
  ['TaskStartedStatus', 'BackgroundTaskStatus'],
  ['TaskStartedTask', 'BackgroundTaskType'],
])

/** Names of numbers, which generators cannot make. */
const numberNames: Readonly<Record<string, readonly string[]>> = {
  MessageStatus: ['Success', 'Pending', 'Fail', 'Sending', 'Canceled'],
  BulkReplayStatus: ['Success', 'Fail'],
  MessageAttemptTriggerType: ['Scheduled', 'Manual'],
}

/** Keywords about the place where a schema stands, rather than about its values. */
const aboutPlace = /^(description|default|deprecated)$/

/** Where a schema stands: in `EndpointIn`, as `circuit`. */
interface Place {
  readonly stem: string
  readonly suffix: '' | 'In' | 'Out'
  readonly steps: readonly string[]
}

/** A schema that waits for its name, with the names of its places and the references to it. */
interface Found {
  readonly schema: Json
  readonly names: Set<string>
  readonly references: Json[]
}

/** The same document, where each schema stands once under its name. */
export function withNames({ paths, webhooks, schemas }: Parts): Parts {
  const naming = new Naming()
  const known = mapJson(schemas, (schema, name) => naming.inside(schema as Json, placeOf(name)))
  const named = {
    paths: naming.content(paths, { stem: '', suffix: '', steps: [] }) as Json,
    webhooks: naming.content(webhooks, { stem: '', suffix: 'Out', steps: [] }) as Json,
  }
  const all = Object.entries({ ...known, ...naming.finish(known) })
  return { ...named, schemas: Object.fromEntries(all.sort(([a], [b]) => (a < b ? -1 : 1))) as Parts['schemas'] }
}

class Naming {
  /** By their text, where references are the texts of other schemas. */
  readonly #found = new Map<string, Found>()
  readonly #unions: { readonly mapping: Record<string, unknown>; readonly kind: string; readonly to: Json }[] = []

  /** Names what stands within operations: the schemas of parameters, bodies and answers. */
  content(node: unknown, place: Place): unknown {
    if (Array.isArray(node)) return node.map((each) => this.content(each, place))
    if (!isJson(node)) return node
    const { operationId, in: isIn, name } = node
    const here = typeof operationId === 'string' ? { ...place, stem: pascal(operationId.replace(/^v1\./, '')) } : place
    const inside = isIn === undefined ? here : { ...here, steps: [pascal(String(name))] }
    return mapJson(node, (value, key) => {
      if (key === 'example') return value
      if (key === 'schema') return this.#schema(value as Json, inside)
      if (key === 'requestBody') return this.content(value, { ...inside, suffix: 'In' })
      return this.content(value, key === 'responses' ? { ...inside, suffix: 'Out' } : inside)
    })
  }

  /** The same schema with a name for each part of it. */
  inside(schema: Json, place: Place): Json {
    const deeper = (step: string): Place => ({ ...place, steps: step === '' ? place.steps : [...place.steps, step] })
    const part = (value: unknown, step: string) => this.#schema(value as Json, deeper(step))
    const written = mapJson(plain(schema), (value, key) => {
      if (key === 'properties') return mapJson(value as Json, (each, name) => part(each, pascal(name)))
      if (key === 'contentSchema') return part(value, '')
      if (key === 'items') return this.#schema(value as Json, { ...place, steps: singular(place.steps) })
      if (key === 'additionalProperties' && isJson(value)) return part(value, 'Value')
      if (key === 'anyOf') return (value as Json[]).map((each) => part(each, formOf(each)))
      return value
    })
    return this.#discriminated(plain(schema), written)
  }

  /** The schemas that got a name. */
  finish(known: Readonly<Record<string, unknown>>): Readonly<Record<string, Json>> {
    const texts = new Map(Object.entries(known).map(([name, schema]) => [textOf(split(schema as Json).itself), name]))
    const named = new Map<string, Json>()
    for (const [text, { schema, names, references }] of this.#found) {
      const name = texts.get(text) ?? nameFrom(names)
      const isTaken = named.has(name) || (Object.hasOwn(known, name) && texts.get(text) !== name)
      if (isTaken)
        throw new Error(`Two schemas are named ${name}; name the one of ${[...names].join(', ')} in openapi-names.ts`)
      const numbers = numberNames[name]
      if (texts.get(text) !== name) named.set(name, numbers ? { ...schema, 'x-enum-varnames': numbers } : schema)
      for (const reference of references) Object.assign(reference, { $ref: `#/components/schemas/${name}` })
    }
    for (const { mapping, kind, to } of this.#unions) mapping[kind] = to.$ref
    return Object.fromEntries(named)
  }

  /** A schema where it is used: a reference when it has fields, is a union or a choice of words. */
  #schema(schema: Json, place: Place): Json {
    if (schema.$ref !== undefined) return schema
    const { value, isNullable } = withoutNull(plain(schema))
    const { itself, about } = split(this.inside(value, place))
    const isNamed =
      itself.enum ?? itself.anyOf ?? itself.oneOf ?? (isJson(itself.properties) && hasAny(itself.properties))
    if (!isNamed) return isNullable ? { ...this.inside(plain(schema), place) } : { ...itself, ...about }
    const reference = this.#reference(itself, nameOf(itself, place))
    return isNullable ? { anyOf: [reference, { type: 'null' }], ...about } : Object.assign(reference, about)
  }

  #reference(itself: Json, name: string): Json {
    const text = textOf(itself)
    const found = this.#found.get(text) ?? { schema: itself, names: new Set(), references: [] }
    this.#found.set(text, found)
    found.names.add(name)
    const reference = { $ref: text }
    found.references.push(reference)
    return reference
  }

  /** A union whose members say which they are by their `kind` says so. */
  #discriminated(before: Json, written: Json): Json {
    const { anyOf: members, ...rest } = before
    if (!Array.isArray(members) || !members.every((each) => kindOf(each) !== undefined)) return written
    const oneOf = written.anyOf as readonly Json[]
    const mapping = {}
    for (const [i, to] of oneOf.entries()) this.#unions.push({ mapping, kind: kindOf(members[i]) ?? '', to })
    return { ...rest, oneOf, discriminator: { propertyName: 'kind', mapping } }
  }
}

function placeOf(component: string): Place {
  const [, stem = component, suffix] = /^(.+?)(In|Patch|Update|Out)$/.exec(component) ?? []
  return { stem, suffix: suffix === undefined ? '' : suffix === 'Out' ? 'Out' : 'In', steps: [] }
}

function nameOf({ enum: words, properties }: Json, { stem, suffix, steps }: Place): string {
  const { data, iterator } = (properties ?? {}) as Readonly<Record<string, { readonly items?: { $ref?: string } }>>
  const [, item] = /^#\/components\/schemas\/(\w+)$/.exec(data?.items?.$ref ?? '') ?? []
  // As in Svix's document.
  if (item !== undefined && iterator !== undefined && hasOnly(properties as Json, 4)) return `ListResponse_${item}_`
  return stem + steps.join('') + (words === undefined ? suffix : '')
}

function nameFrom(names: ReadonlySet<string>): string {
  const [chosen] = [...names].flatMap((name) => better.get(name) ?? [])
  const [first = ''] = [...names].sort((a, b) => a.length - b.length || (a < b ? -1 : 1))
  return chosen ?? first
}

/** A schema in the words that generators know: types of choices, maps with `additionalProperties`, one choice of constants. */
function plain(schema: Json): Json {
  const { patternProperties, ...rest } = schema
  const entries = Object.entries((patternProperties ?? {}) as Json)
  const [[pattern, values] = []] = entries
  const keys = pattern === undefined || pattern === '^.*$' ? {} : { propertyNames: { type: 'string', pattern } }
  const map = values === undefined ? rest : { ...rest, ...keys, additionalProperties: values }
  const { anyOf, enum: words } = map as { readonly anyOf?: readonly Json[]; readonly enum?: readonly unknown[] }
  if (Array.isArray(anyOf) && anyOf.some(isConstant)) {
    const choice = { type: 'string', enum: anyOf.filter(isConstant).map((each) => each.const) }
    const others = anyOf.filter((each) => !isConstant(each))
    const { anyOf: _, ...about } = map as Json
    return others.length === 0 ? { ...about, ...choice } : { ...about, anyOf: [choice, ...others] }
  }
  if (words === undefined || map.type !== undefined) return map
  const types = [...new Set(words.map(typeOf))]
  return { type: types.length === 1 ? types[0] : types, ...map }
}

/** The schema of the values that are not null, and whether null is one. */
function withoutNull(schema: Json): { value: Json; isNullable: boolean } {
  const { type, enum: words, anyOf } = schema as { type?: unknown; enum?: readonly unknown[]; anyOf?: readonly Json[] }
  if (Array.isArray(anyOf) && anyOf.some(isNull)) {
    const others = anyOf.filter((each) => !isNull(each))
    return others.length === 1
      ? { value: schema, isNullable: false }
      : { value: { ...schema, anyOf: others }, isNullable: true }
  }
  if (!Array.isArray(type) || !type.includes('null')) return { value: schema, isNullable: false }
  const others = type.filter((each) => each !== 'null')
  const kept = words === undefined ? {} : { enum: words.filter((word) => word !== null) }
  return { value: { ...schema, type: others.length === 1 ? others[0] : others, ...kept }, isNullable: true }
}

function split(schema: Json): { itself: Json; about: Json } {
  const entries = Object.entries(schema)
  return {
    itself: Object.fromEntries(entries.filter(([key]) => !aboutPlace.test(key))),
    about: Object.fromEntries(entries.filter(([key]) => aboutPlace.test(key))),
  }
}

/** The same text for the same schema, whatever the order of its keywords. */
function textOf(schema: unknown): string {
  return JSON.stringify(schema, (_, value) => {
    return isJson(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value
  })
}

function formOf(member: Json): string {
  const kind = kindOf(member)
  if (kind !== undefined) return pascal(kind)
  return member.enum !== undefined ? 'Choice' : member.properties !== undefined ? 'Fields' : ''
}

function kindOf(member: unknown): string | undefined {
  const { properties } = member as { readonly properties?: { readonly kind?: { readonly const?: string } } }
  return properties?.kind?.const
}

function singular(steps: readonly string[]): string[] {
  const last = steps.at(-1) ?? ''
  if (last === 'Data') return [...steps.slice(0, -1), 'Item']
  return [...steps.slice(0, -1), last.replace(/ies$/, 'y').replace(/([^s])s$/, '$1')]
}

function pascal(text: string): string {
  return text.replace(/(?:^|[^a-zA-Z0-9]+)([a-zA-Z0-9])/g, (_, first: string) => first.toUpperCase())
}

function typeOf(value: unknown): string {
  return value === null ? 'null' : Number.isInteger(value) ? 'integer' : typeof value
}

const isConstant = (schema: Json) => typeof schema.const === 'string'
const isNull = (schema: Json) => schema.type === 'null'
const hasAny = (json: Json) => Object.keys(json).length > 0
const hasOnly = (json: Json, count: number) => Object.keys(json).length === count

function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function mapJson(json: Json, map: (value: unknown, key: string) => unknown): Json {
  return Object.fromEntries(Object.entries(json).map(([key, value]) => [key, map(value, key)]))
}
