import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Target } from './attack.ts'

// Validation does not touch the store, so one store is enough.
test('bodies made to be slow to check are refused without holding the loop', async (t) => {
  const target = await Target.share(t, 'sqlite')
  const app = await target.newApplication()
  const equal = Array.from({ length: 24_000 }, () => 'a')
  const bodies: readonly (readonly [string, string, unknown])[] = [
    ['POST', `/app/${app}/msg`, { eventType: 'x', payload: {}, channels: equal }],
    ['POST', `/app/${app}/msg`, { eventType: 'x', payload: {}, tags: equal }],
    ['POST', `/app/${app}/endpoint`, { url: 'https://example.com/', channels: equal, eventTypes: equal }],
    ['POST', `/app/${app}/endpoint`, { url: 'https://example.com/', shape: { drop: equal, keep: equal } }],
    ['POST', `/app/${app}/endpoint`, { url: 'https://example.com/', retry: { waits: { kind: 'list', ms: equal } } }],
    ['POST', `/app/${app}/msg/precheck/active`, { eventType: 'x', channels: equal }],
    ['POST', '/api-key', { name: 'x', scopes: equal }],
    ['POST', '/event-type', { name: 'x', description: 'x', featureFlags: equal }],
  ]
  await target.measure('equal items', async () => {
    for (const [method, path, body] of bodies) {
      const { status, text } = await target.call(method, path, { body })
      assert.equal(status, 422, `${method} ${path} ${text.slice(0, 200)}`)
      assert.ok(text.length < 10_000, `${text.length} bytes of problems`)
    }
  })
})

test('more headers than any server reads are refused', async (t) => {
  const target = await Target.share(t, 'sqlite')
  const app = await target.newApplication()
  const many = Object.fromEntries(Array.from({ length: 9000 }, (_, i) => [`x-${i}`, 'v']))
  const large = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`x-${i}`, 'v'.repeat(1000)]))
  const url = 'https://example.com/'
  await target.measure('message headers', async () => {
    for (const headers of [many, large]) {
      const message = { eventType: 'x', payload: {}, headers }
      for (const [path, body] of [
        [`/app/${app}/msg`, message],
        [`/app/${app}/msg/batch`, { messages: [message] }],
        [`/app/${app}/endpoint`, { url, headers }],
      ] as const) {
        const { status, text } = await target.call('POST', path, { body })
        assert.equal(status, 422, text.slice(0, 200))
        assert.match(
          text,
          /"headers"\],"msg":"must not (have more than 64 properties|take up more than 8192 bytes together)"/,
        )
      }
    }
  })
})
