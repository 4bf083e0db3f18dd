import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { describe, test } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { writeClient } from '../../scripts/client.ts'
import { operations } from '../../src/features/routes.ts'
import { codesByStatus, remedyOf } from '../../src/operations/errors.ts'
import { openApi } from './api.ts'
import { declaredRoutes } from './declared-routes.ts'
import { pathOf } from './paths.ts'
import { type JsonSchema, readReference } from './reference.ts'

const checkedIn = new URL('../../docs/openapi.json', import.meta.url)

describe('the reference', () => {
  test('describes every route, and nothing but routes', async () => {
    const declared = (await declaredRoutes()).map(({ method, url }) => `${method} ${pathOf(url)}`)
    const described = Object.keys(operations)
    assert.deepEqual(
      { missing: declared.filter((route) => !described.includes(route)) },
      { missing: [] },
      'declare these by route() in src/features',
    )
    assert.deepEqual({ extra: described.filter((route) => !declared.includes(route)) }, { extra: [] })
  })

  test('names every operation once, says what it does and what it answers', () => {
    const ids = new Set<string>()
    for (const [route, { id, summary, answers }] of Object.entries(operations)) {
      assert.match(id, /^v1\.[a-z-]+(\.[a-z-]+)+$/, route)
      assert.ok(!ids.has(id), `${id} is used twice`)
      ids.add(id)
      assert.match(summary, /^[A-Z].*[^.]$/, route)
      assert.ok(Object.keys(answers).length > 0, route)
    }
  })

  test('says what every kind of thing is', () => {
    for (const { name, description } of readReference().tags) assert.match(description, /^[A-Z].*\.$/, name)
  })

  test('says what everything means that a caller can send', () => {
    const { paths, components } = readReference()
    const silent = new Set<string>()
    for (const { parameters, requestBody, operationId } of Object.values(paths).flatMap((one) => Object.values(one))) {
      for (const { name, description } of parameters) if (!description) silent.add(`${operationId} ?${name}`)
      const { $ref = '' } = (requestBody?.content['application/json']?.schema ?? {}) as JsonSchema
      const shape = $ref.split('/').at(-1) ?? ''
      const { properties = {} } = components.schemas[shape] ?? {}
      for (const [name, { description }] of Object.entries(properties)) if (!description) silent.add(`${shape}.${name}`)
    }
    assert.deepEqual([...silent], [], 'describe these in their schemas')
  })

  test('names every part of every path', () => {
    const { paths } = readReference()
    for (const [path, methods] of Object.entries(paths)) {
      for (const { parameters, operationId } of Object.values(methods)) {
        const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
        const inPath = parameters.filter((parameter) => parameter.in === 'path')
        assert.deepEqual(
          inPath.map(({ name }) => name),
          named,
          operationId,
        )
        for (const { description, name } of inPath) assert.ok(description, `${operationId} ${name}`)
      }
    }
  })

  test('refers only to what it contains', () => {
    const document = readReference()
    const text = JSON.stringify(document)
    for (const [, kind, name] of text.matchAll(/"#\/components\/(\w+)\/(\w+)"/g)) {
      const part = document.components[kind as 'schemas' | 'responses']
      assert.ok(part[name as string] !== undefined, `${kind}/${name}`)
    }
  })

  test('is checked in as it is (UPDATE_OPENAPI=1 rewrites it)', async () => {
    const text = `${JSON.stringify(readReference(), null, 2)}\n`
    if (process.env.UPDATE_OPENAPI === '1') {
      await writeFile(checkedIn, text)
      writeClient()
    }
    assert.deepEqual(JSON.parse(text), JSON.parse(await readFile(checkedIn, 'utf8')))
  })

  test('and docs/errors.md name the same codes, with the same remedies', async () => {
    const text = await readFile(new URL('../../docs/errors.md', import.meta.url), 'utf8')
    const api = text.slice(0, text.indexOf('## Attempts'))
    const rows = [...api.matchAll(/^\| `(\w+)` \| (\d+) \| (.*) \|$/gm)]
    const listed = rows.map(([, code, status, text = '']) => {
      return `${status} ${code}: ${text.replaceAll(/ \(\[[^\]]*\]\([^)]*\)\)/g, '')}`
    })
    const known = [...codesByStatus()].flatMap(([status, { codes }]) =>
      codes.map((code) => `${status} ${code}: ${remedyOf(code)}`),
    )
    assert.deepEqual(listed.toSorted(), known.toSorted())
  })

  test('is served without a key', async () => {
    const { app } = await openApi()
    const data = await app.inject('/api/v1/openapi.json')
    assert.deepEqual([data.statusCode, data.json()], [200, JSON.parse(JSON.stringify(readReference()))])
  })

  test('is compressed for clients that take it', async () => {
    const { app } = await openApi()
    const url = '/api/v1/openapi.json'
    const plain = await app.inject(url)
    const decoders = { br: brotliDecompressSync, gzip: gunzipSync } as const
    for (const [accepted, encoding] of [
      ['gzip, deflate, br', 'br'],
      ['br;q=0, gzip', 'gzip'],
      ['GZIP', 'gzip'],
    ] as const) {
      const { headers, rawPayload } = await app.inject({ url, headers: { 'accept-encoding': accepted } })
      assert.deepEqual([headers['content-encoding'], headers.vary], [encoding, 'accept-encoding'])
      assert.ok(rawPayload.length < plain.rawPayload.length / 5, `${rawPayload.length} bytes`)
      assert.deepEqual(decoders[encoding](rawPayload), plain.rawPayload)
    }
    assert.deepEqual([plain.headers['content-encoding'], plain.headers.vary], [undefined, 'accept-encoding'])
  })
})
