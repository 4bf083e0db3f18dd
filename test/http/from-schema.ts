import fc from 'fast-check'
import type { JsonSchema } from './reference.ts'

const instants = ['2026-01-01T00:00:00Z', '2026-11-15T12:00:00.5+02:00', '1970-01-01T00:00:00Z', '2099-12-31T23:59:59Z']
/** Texts with a meaning beyond their schema, so that some of what is generated is accepted. */
const meaningful: Readonly<Record<string, readonly string[]>> = {
  app: ['mine'],
  appId: ['mine'],
  url: ['https://example.com/', 'https://example.com/hook?a=b', 'http://127.0.0.1:9999/'],
  secret: [`whsec_${Buffer.alloc(24, 1).toString('base64')}`],
  key: [`whsec_${Buffer.alloc(32, 2).toString('base64')}`],
  eventType: ['video.trending', 'mine.happened'],
  eventTypes: ['*', 'video.*'],
  filterTypes: ['*', 'mine.*'],
  cron: ['0 7 * * *', '*/5 * * * MON-FRI', '30 2 29 2 *'],
  timezone: ['UTC', 'Europe/Berlin'],
  since: [new Date(Date.now() - 3_600_000).toISOString(), '1970-01-01T00:00:00+01:00'],
  until: ['2099-12-31T23:59:59Z'],
  filter: ['true', 'payload.views > 1000 && eventType == "x"'],
  region: [`region-mine-${'0'.repeat(18)}`],
  keep: ['/a', '/user/id'],
  drop: ['/b', '/items/*/price'],
  pseudonymize: ['/user/id', '/c'],
}

/** Values that a schema allows. `name` is the field they stand in. */
export function valuesOf(schema: unknown, name = ''): fc.Arbitrary<unknown> {
  const { type, anyOf, oneOf, enum: options, const: constant } = schema as JsonSchema
  if (constant !== undefined) return fc.constant(constant)
  if (options !== undefined) return fc.constantFrom(...options)
  const forms = anyOf ?? oneOf
  if (forms !== undefined) return fc.oneof(...forms.map((option) => valuesOf(option, name)))
  const types = [type ?? 'any'].flat()
  return fc.oneof(...types.map((one) => valuesOfType(one, schema as JsonSchema, name)))
}

function valuesOfType(type: string, schema: JsonSchema, name: string): fc.Arbitrary<unknown> {
  const { minimum = -(2 ** 31), maximum = 2 ** 31, minItems = 0, maxItems = 4 } = schema
  if (type === 'null') return fc.constant(null)
  if (type === 'boolean') return fc.boolean()
  if (type === 'integer') return fc.integer({ min: minimum, max: maximum })
  if (type === 'number') return fc.double({ min: minimum, max: maximum, noNaN: true })
  if (type === 'string') return textsOf(schema, name)
  if (type === 'array') {
    const length = { minLength: minItems, maxLength: Math.min(maxItems, minItems + 3) }
    return fc.array(valuesOf(schema.items ?? {}, name), length)
  }
  if (type === 'object') return objectsOf(schema)
  return fc.jsonValue({ maxDepth: 2 })
}

function objectsOf({ properties, required = [], ...map }: JsonSchema): fc.Arbitrary<unknown> {
  if (properties === undefined || Object.keys(properties).length === 0) {
    // The schemas of routes have the one, and those of the reference the other.
    const values = Object.values(map.patternProperties ?? {})[0] ?? map.additionalProperties
    const keys = fc.constantFrom('a', 'b-1', 'x-test')
    return fc.dictionary(keys, typeof values !== 'object' ? fc.jsonValue({ maxDepth: 2 }) : valuesOf(values), {
      maxKeys: 3,
    })
  }
  const fields = Object.fromEntries(Object.entries(properties).map(([key, field]) => [key, valuesOf(field, key)]))
  // Without a prototype there is nothing that JSON would lose.
  return fc.record(fields, { requiredKeys: required as string[] }).map((record) => ({ ...record }))
}

function textsOf({ pattern, format, minLength = 0, maxLength = 40 }: JsonSchema, name: string): fc.Arbitrary<string> {
  const known = meaningful[name]
  if (known !== undefined) return fc.constantFrom(...known)
  if (format === 'date-time' || pattern?.includes('T')) return fc.constantFrom(...instants)
  const length = { minLength, maxLength: Math.min(maxLength, minLength + 20) }
  if (pattern !== undefined) return fc.string({ ...length, unit: fc.constantFrom(...'abcXYZ019-_') })
  return fc.string({ ...length, unit: 'grapheme' })
}

/** Values that no schema expects, or only a few do. */
const junk = [
  null,
  '',
  0,
  -1,
  1.5,
  1e308,
  2 ** 53,
  true,
  [],
  {},
  'x'.repeat(5000),
  '\u0000',
  '\ud800',
  "'; drop table message; --",
  '%_',
  '../..',
  'ep_000000000000000000000000000',
  { $ref: '#' },
  [[[[]]]],
  '9'.repeat(400),
  -0,
]

/** The same value with one of its parts, or itself, replaced by something that does not belong there. */
export function spoiled(values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.tuple(values, fc.array(fc.nat(), { maxLength: 3 }), fc.constantFrom(...junk)).map(([value, path, bad]) => {
    return replaced(value, path, bad)
  })
}

function replaced(value: unknown, [step, ...rest]: readonly number[], bad: unknown): unknown {
  if (step === undefined || typeof value !== 'object' || value === null) return bad
  if (Array.isArray(value)) {
    if (value.length === 0) return [bad]
    return value.map((item, i) => (i === step % value.length ? replaced(item, rest, bad) : item))
  }
  const keys = Object.keys(value)
  const key = keys[step % Math.max(1, keys.length)] ?? 'extra'
  return { ...value, [key]: replaced((value as Record<string, unknown>)[key], rest, bad) }
}

/** A text with a few of its characters gone, doubled or replaced. */
export function garbled(texts: fc.Arbitrary<string>): fc.Arbitrary<string | Buffer> {
  const edit = fc.tuple(
    fc.nat(),
    fc.nat(3),
    fc.constantFrom('', '"', '{', '}', ',', '\\', '\\u0000', '\n', '1e9999', '\ufeff'),
  )
  const edited = fc.tuple(texts, fc.array(edit, { minLength: 1, maxLength: 3 })).map(([text, edits]) =>
    edits.reduce((now, [at, cut, insert]) => {
      const start = at % (now.length + 1)
      return now.slice(0, start) + insert + now.slice(start + cut)
    }, text),
  )
  const bytes = fc.uint8Array({ maxLength: 30 }).map((array) => Buffer.from(array))
  return fc.oneof({ weight: 4, arbitrary: edited }, { weight: 1, arbitrary: bytes })
}

/** The least that the route's own schema asks for. */
export function leastBody(body: unknown): unknown {
  if (typeof body !== 'object') return undefined
  const { properties, required = [] } = body as { properties: Record<string, unknown>; required?: string[] }
  const least = { ...body, properties: Object.fromEntries(required.map((name) => [name, properties[name]])) }
  return required.length === 0 ? {} : fc.sample(valuesOf(least), { numRuns: 1, seed: 5 })[0]
}

/** The parameters that the route's query requires. */
export function leastQuery(query: unknown): string {
  const { properties = {}, required = [] } = (query ?? {}) as { properties?: object; required?: string[] }
  const values = required.map((name): [string, string] => [
    name,
    String(fc.sample(valuesOf(properties[name as never], name), 1)[0]),
  ])
  return values.length === 0 ? '' : `?${new URLSearchParams(values)}`
}
