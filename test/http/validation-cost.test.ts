import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import type { TSchema } from 'typebox'
import { AppError } from '../../src/domain/app-error.ts'
import { operations } from '../../src/features/routes.ts'
import { Scanner } from '../../src/json/scan.ts'
import { compile, readJson } from '../../src/operations/validate.ts'

/**
 * Every request schema is checked against values made to be slow: 50 ms per megabyte, or on a slow machine 25 times as
 * long as JSON.parse takes. The time is the thread's own CPU time, so that a busy machine does not fail the test; its
 * clock may tick every 10 ms.
 */
const msPerMegabyte = 50
const timesParsing = 25
const tickMs = 10

const many = 30_000
const times = <T>(item: (i: number) => T) => Array.from({ length: many }, (_, i) => item(i))

/** Values of about 200 KB that meet a bound, a pattern or a set of items at its worst. */
const hostile: Readonly<Record<string, unknown>> = {
  'equal texts': times(() => 'a'),
  'texts that differ at the end': times((i) => `aaaaaaaaaaaaaaaa${i}`),
  'equal numbers': times(() => 1),
  'texts that fit no name': times(() => '\u0001'),
  'empty objects': times(() => ({})),
  'empty lists': times(() => []),
  'objects with a constant': times(() => ({ kind: 'list', ms: [-1] })),
  'many keys': Object.fromEntries(times((i) => [`k${i}`, 'v'])),
  'many keys of numbers': Object.fromEntries(times((i) => [`k${i}`, i])),
  'many pointers': Object.fromEntries(times((i) => [`/a/${i}`, 'v'])),
  'a long name': 'a'.repeat(8 * many),
  'a long text of no name': `${'a'.repeat(8 * many)}!`,
  'a long pointer': '/a~0'.repeat(2 * many),
  'a long pointer that ends wrong': `${'/a~0'.repeat(2 * many)}~`,
  'a long row of slashes': '/'.repeat(8 * many),
  'an instant with many digits': `2026-01-01T00:00:00.${'0'.repeat(8 * many)}`,
  'a long text of pairs': '😀'.repeat(2 * many),
  'a choice with a long list': { kind: 'list', ms: times(() => -1) },
  'nested lists': Array.from({ length: 30 }).reduce<unknown>((inner) => [inner, ...times(() => 0).slice(0, 1000)], []),
}

interface Schema {
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly patternProperties?: Readonly<Record<string, Schema>>
}

/** Puts a value at every place that a schema has: at the top, in each field, in each item, in each alternative. */
function* places(schema: Schema, path = 'value', depth = 0): Generator<[string, (value: unknown) => unknown]> {
  yield [path, (value) => value]
  if (depth > 6) return
  for (const form of schema.anyOf ?? []) yield* places(form, path, depth + 1)
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    for (const [at, put] of places(property, `${path}.${name}`, depth + 1))
      yield [at, (value) => ({ [name]: put(value) })]
  }
  for (const property of Object.values(schema.patternProperties ?? {})) {
    for (const [at, put] of places(property, `${path}.*`, depth + 1)) yield [at, (value) => ({ '/any': put(value) })]
  }
  if (schema.items === undefined) return
  for (const [at, put] of places(schema.items, `${path}[]`, depth + 1)) yield [at, (value) => [put(value)]]
}

/**
 * Every schema that a request is checked with: those of the operations, and those that the schema modules export for requests.
 * A schema that several routes share is checked once, under the name of the first.
 */
async function requestSchemas(): Promise<Map<TSchema, string>> {
  const found = new Map<TSchema, string>()
  const add = (schema: TSchema, name: string) => found.set(schema, found.get(schema) ?? name)
  for (const [route, { body, query }] of Object.entries(operations)) {
    const schema = typeof body === 'object' && 'lines' in body ? body.lines : body
    if (typeof schema === 'object') add(schema, `${route} body`)
    if (query !== undefined) add(query, `${route} query`)
  }
  const routes = found.size
  for (const file of globSync(join(import.meta.dirname, '../../src/features/*/*schemas.ts'))) {
    for (const [name, value] of Object.entries(await import(pathToFileURL(file).href))) {
      if (/(In|Query)$/.test(name) && typeof value === 'object') add(value as TSchema, name)
    }
  }
  assert.ok(found.size > routes, 'the modules have schemas that no route names, such as the fields of a message')
  return found
}

const texts = new Map(Object.entries(hostile).map(([name, value]) => [name, JSON.stringify(value)]))
const parsings = new Map<string, number>()

/** How long JSON.parse takes for a value, measured once. */
function parsingMs(name: string): number {
  const text = texts.get(name) as string
  const runs = 20
  const known = parsings.get(name)
  if (known !== undefined) return known
  const all = cpuMs(() => {
    for (let i = 0; i < runs; i++) JSON.parse(text)
  })
  parsings.set(name, all / runs)
  return all / runs
}

/** The least CPU time of some runs: whatever else the thread had to do, such as collecting garbage, only adds. */
function leastCpuMs(run: () => unknown, runs: number): number {
  let least = Infinity
  for (let i = 0; i < runs; i++) least = Math.min(least, cpuMs(run))
  return least
}

function cpuMs(run: () => unknown): number {
  const before = process.threadCpuUsage()
  run()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}

function assertLinear(what: string, name: string, run: () => unknown): void {
  let limit = tickMs + (msPerMegabyte * (texts.get(name) as string).length) / 2 ** 20
  let took = cpuMs(run)
  if (took <= limit) return
  limit = Math.max(limit, tickMs + timesParsing * parsingMs(name))
  if (took > limit) took = leastCpuMs(run, 5)
  assert.ok(took <= limit, `${what}: ${name} took ${took} ms of CPU; the limit is ${limit} ms`)
}

test('checking takes time linear in the bytes, for every request schema and at every place in it', async () => {
  const schemas = await requestSchemas()
  assert.ok(schemas.size > 60, `${schemas.size} schemas`)
  let checked = 0
  for (const [schema, schemaName] of schemas) {
    const problemsOf = compile(schema, 'body')
    for (const [place, put] of places(schema as Schema)) {
      for (const [name, value] of Object.entries(hostile)) {
        const whole = put(value)
        assertLinear(`${schemaName} at ${place}`, name, () => {
          assert.ok(problemsOf(whole).length <= 21)
        })
        checked++
      }
    }
  }
  assert.ok(checked > 5000, `${checked} checks`)
})

test('reading a body takes time linear in its bytes, whatever it holds', () => {
  const scanner = new Scanner(1)
  for (const [name, value] of Object.entries(hostile)) {
    const body = Buffer.from(JSON.stringify(value))
    assertLinear('reading', name, () => {
      try {
        readJson(scanner, body)
      } catch (error) {
        if (!(error instanceof AppError)) throw error
      }
    })
  }
})

test('a body with thousands of problems is answered with the first twenty and the number of the others', () => {
  const problems = compile(
    operations['POST /app/:app/endpoint']?.body as TSchema,
    'body',
  )({
    url: 'https://example.com/',
    eventTypes: Array.from({ length: 1000 }, (_, i) => i),
  })
  assert.equal(problems.length, 21)
  assert.deepEqual(problems[0], { at: ['body', 'eventTypes', 0], message: 'must be string', type: 'type' })
  assert.deepEqual(problems[20], { at: [], message: 'and 980 more problems', type: 'more' })
})

test('a bound that fails ends the check of what it bounds', () => {
  const check = compile(operations['POST /app/:app/endpoint']?.body as TSchema, 'body')
  const url = 'https://example.com/'
  assert.deepEqual(
    check({ url, channels: Array.from({ length: 50_000 }, () => 'a b') }).map(({ type }) => type),
    ['maxItems'],
  )
  assert.deepEqual(
    check({ url, headers: hostile['many keys of numbers'] }).map(({ type }) => type),
    ['maxProperties'],
  )
  assert.deepEqual(
    check({ url, uid: hostile['a long text of no name'] }).map(({ type }) => type),
    ['maxLength'],
  )
})

test('a key with a line break does not hide its value from the check', () => {
  const check = compile(operations['POST /app']?.body as TSchema, 'body')
  assert.deepEqual(check({ name: 'x', metadata: { 'a\nb': { any: ['thing'] } } }), [
    { at: ['body', 'metadata', 'a\nb'], message: 'must be string', type: 'type' },
  ])
})
