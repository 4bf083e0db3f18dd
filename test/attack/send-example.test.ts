import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Target } from './attack.ts'

// The example is refused before the store is asked, so one store is enough.
test('an example of a schema that refers to itself is refused before it grows', async (t) => {
  const target = await Target.share(t, 'sqlite')
  const app = await target.newApplication()
  const { id } = await target.client.createEndpoint(app, { url: 'https://example.com/' })
  const self = { $ref: '#' }
  const names = Array.from({ length: 100 }, (_, i) => `field-${i}`)
  const large = 'x'.repeat(100_000)
  const schemas = {
    recursive: { type: 'object', properties: Object.fromEntries(names.map((name) => [name, self])) },
    all: { allOf: names.map(() => self), type: 'object' },
    shared: {
      type: 'object',
      $defs: { big: { const: large } },
      properties: Object.fromEntries(names.map((name) => [name, { $ref: '#/$defs/big' }])),
    },
  }
  for (const [name, schema] of Object.entries(schemas)) {
    const { status, text } = await target.call('POST', '/event-type', {
      body: { name, description: name, schemas: { 1: schema } },
    })
    assert.equal(status, 201, text)
  }
  await target.measure('send-example', async () => {
    for (const eventType of Object.keys(schemas)) {
      const { status, text } = await target.call('POST', `/app/${app}/endpoint/${id}/send-example`, {
        body: { eventType },
      })
      assert.equal(status, 422, text.slice(0, 200))
      assert.match(text, /would have more than 10000 values or 1048576 bytes: add a smaller one/)
    }
  })
})
