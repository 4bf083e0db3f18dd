import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { namedSchemas } from '../../src/features/routes.ts'

type Shapes = Record<string, Record<string, string>>

const required: Shapes = JSON.parse(readFileSync(new URL('./svix/required-fields.json', import.meta.url), 'utf8'))

/** Shapes that have another name here, because here they are one. */
const sameAs: Readonly<Record<string, string>> = {
  OperationalWebhookEndpointOut: 'EndpointOut',
  OperationalWebhookEndpointSecretOut: 'EndpointSecretOut',
  OperationalWebhookEndpointHeadersOut: 'EndpointHeadersOut',
  RecoverOut: 'TaskStartedOut',
  ReplayOut: 'TaskStartedOut',
  AggregateEventTypesOut: 'TaskStartedOut',
}

/**
 * Every answer is held to its shape in all tests of the API, so a field that the shape requires is there. Here the
 * shapes themselves are held to Svix's.
 */
describe("a shape of Svix's", () => {
  for (const [name, fields] of Object.entries(required)) {
    test(`${name} has here every field that its clients require, of the same type and never null`, () => {
      const schema = namedSchemas[sameAs[name] ?? name] as
        | { properties: Record<string, { type?: unknown; enum?: unknown[] }>; required: string[] }
        | undefined
      assert.ok(schema, `${name} has no shape here`)
      for (const [field, type] of Object.entries(fields)) {
        assert.ok(schema.required.includes(field), `${field} is not required`)
        const property = schema.properties[field] as { type?: unknown; enum?: unknown[] }
        if (type === 'any') continue
        const values = property.enum?.map((value) => (typeof value === 'number' ? 'integer' : typeof value))
        assert.deepEqual([...new Set(values ?? [property.type])], [type], field)
      }
    })
  }
})
