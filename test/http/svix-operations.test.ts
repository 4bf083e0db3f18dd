import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { type JsonSchema, readReference } from './reference.ts'

interface SvixOperation {
  readonly statuses: readonly number[]
  readonly query: readonly string[]
  readonly body?: readonly string[]
}

const theirs: Record<string, SvixOperation> = JSON.parse(
  readFileSync(new URL('./svix/operations.json', import.meta.url), 'utf8'),
)
const document = readReference()

/** The document says 204 for health, and Svix's own server answers 200 with a body. */
const otherwise = new Set(['GET /api/v1/health'])

describe("an operation of Svix's open-source server", () => {
  for (const [name, { statuses, query, body = [] }] of Object.entries(theirs)) {
    test(`${name} is here, with its statuses, its query and its fields`, () => {
      const [method = '', path = ''] = name.split(' ')
      const ours = document.paths[path]?.[method.toLowerCase()]
      assert.ok(ours)
      if (!otherwise.has(name)) for (const status of statuses) assert.ok(String(status) in ours.responses, `${status}`)
      const named = ours.parameters.filter((parameter) => parameter.in === 'query').map((parameter) => parameter.name)
      assert.deepEqual({ query: query.filter((one) => !named.includes(one)) }, { query: [] })
      const { $ref = '' } = (ours.requestBody?.content['application/json']?.schema ?? {}) as JsonSchema
      const fields = document.components.schemas[$ref.split('/').at(-1) ?? '']?.properties ?? {}
      assert.deepEqual({ body: body.filter((field) => !(field in fields)) }, { body: [] })
    })
  }
})
