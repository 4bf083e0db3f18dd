import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Compile } from 'typebox/schema'
import { exampleAnnouncement } from '../../src/features/alerts/receivers.ts'
import { noticeSchemas } from '../../src/features/notices/schemas.ts'
import { readReference } from './reference.ts'

type Json = Readonly<Record<string, unknown>>

const document = readReference() as unknown as Json & { readonly components: { readonly schemas: Json } }

interface Met {
  readonly at: string
  readonly schema: Json
  /** It is one of `components`, and no part of one. */
  readonly isNamed: boolean
}

const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
/** Keywords whose values are names and not schemas. */
const maps = ['properties', 'schemas', 'parameters', 'headers', 'responses', 'content', 'mapping']

/** Every schema of the document. */
function* schemasOf(node: unknown, at = '', isMap = false): Generator<Met> {
  if (Array.isArray(node)) for (const [i, each] of node.entries()) yield* schemasOf(each, `${at}/${i}`)
  if (!isJson(node)) return
  if (!isMap) yield { at, schema: node, isNamed: /^\/components\/schemas\/[^/]+$/.test(at) }
  for (const [key, value] of Object.entries(node)) {
    if (key !== 'example' || isMap) yield* schemasOf(value, `${at}/${key}`, maps.includes(key) && !isMap)
  }
}

const all = [...schemasOf(document)]

describe('for generators', () => {
  test('every object and every choice of words has a name', () => {
    const nameless = all.filter(({ schema, isNamed }) => {
      const { enum: words, properties, oneOf } = schema
      return (
        !isNamed &&
        (Array.isArray(words) || oneOf !== undefined || (isJson(properties) && Object.keys(properties).length > 0))
      )
    })
    assert.deepEqual(
      nameless.map(({ at }) => at),
      [],
    )
  })

  test('every choice of words has a type, and every map says what its values are', () => {
    for (const { at, schema } of all) {
      if (Array.isArray(schema.enum)) assert.ok(schema.type !== undefined, `${at} has no type`)
      assert.ok(schema.patternProperties === undefined, `${at} has patternProperties`)
    }
  })

  test('no schema stands under two names', () => {
    const texts = Object.entries(document.components.schemas).map(([name, schema]) => {
      const { description: _, ...itself } = schema as Json
      return [JSON.stringify(itself), name] as const
    })
    const names = Map.groupBy(texts, ([text]) => text)
    // A part that a request and an answer share keeps both names, for they change apart.
    const shared = [...names.values()].map((each) => each.map(([, name]) => name)).filter(({ length }) => length > 1)
    const isPair = (each: readonly string[]) =>
      new Set(each.map((name) => name.replace(/(In|Out|Patch|Update)$/, ''))).size === 1
    assert.deepEqual(
      shared.filter((each) => !isPair(each)),
      [],
    )
  })

  test('no operation has the name of a variant that a generator makes of another', () => {
    const ids = new Set(Object.values(operations()).map((id) => id.replaceAll(/[^a-z0-9]/gi, '').toLowerCase()))
    assert.equal(ids.size, Object.values(operations()).length)
    for (const id of ids) {
      for (const suffix of ['raw', 'withbody', 'withhttpinfo', 'async', 'call', 'request', 'response', 'sync']) {
        assert.ok(!ids.has(id + suffix), `${id}${suffix}`)
      }
    }
  })

  test('every example fits its schema', () => {
    const { paths } = readReference()
    let checked = 0
    for (const { operationId, parameters, requestBody, responses } of Object.values(paths).flatMap((each) =>
      Object.values(each),
    )) {
      const contents = [requestBody, ...Object.values(responses)].flatMap((each) => {
        return Object.values(
          (each as { content?: Record<string, { schema: unknown; example?: unknown }> })?.content ?? {},
        )
      })
      for (const { schema, example } of [...parameters, ...contents]) {
        if (example === undefined) continue
        assert.deepEqual(problemsOf(schema, example), [], `${operationId}: ${JSON.stringify(example).slice(0, 200)}`)
        checked++
      }
    }
    assert.ok(checked > 300, `${checked} examples`)
  })

  test('the messages of operational webhooks are there, by event type', () => {
    const webhooks = (document as unknown as { readonly webhooks: Json }).webhooks
    assert.deepEqual(Object.keys(webhooks).toSorted(), Object.keys(noticeSchemas).toSorted())
    assert.deepEqual(problemsOf(noticeSchemas['alert.firing']?.body, exampleAnnouncement), [])
  })
})

function operations(): Record<string, string> {
  const { paths } = readReference()
  return Object.fromEntries(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId }]) => [`${method} ${path}`, operationId]),
    ),
  )
}

/** Why a value does not fit a schema of the document. */
function problemsOf(schema: unknown, value: unknown): unknown[] {
  const [, errors] = Compile({ ...(schema as Json), components: document.components }).Errors(value)
  return errors
}
