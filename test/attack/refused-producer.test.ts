import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dialects, Target } from './attack.ts'

for (const dialect of dialects) {
  test(`${dialect}: a customer cannot have the producer's publishes refused`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await target.newApplication()
    const { id } = await target.client.createEndpoint(app, { uid: 'theirs', url: 'http://127.0.0.1:9/' })
    const limited = await target.client.createEndpoint(app, { url: 'http://127.0.0.1:9/', maxWaiting: 1000 })
    const portal = await target.call('POST', `/auth/app-portal-access/${app}`, { body: {} })
    const headers = { authorization: `Bearer ${JSON.parse(portal.text).token}` }
    const ask = async (method: string, path: string, body?: unknown) => {
      const { status, text } = await target.call(method, path, { body, headers })
      return { status, json: text === '' ? undefined : JSON.parse(text) }
    }

    const path = `/app/${app}/endpoint/${id}`
    const tricks = [
      await ask('PATCH', path, { maxWaiting: 1 }),
      await ask('PATCH', path, { maxWaiting: 1, overflow: 'refuse' }),
      await ask('PUT', path, { url: 'http://127.0.0.1:9/', maxWaiting: 1 }),
      await ask('PUT', `/app/${app}/endpoint/another`, { url: 'http://127.0.0.1:9/', maxWaiting: 1 }),
      await ask('POST', `/app/${app}/endpoint`, { url: 'http://127.0.0.1:9/', maxWaiting: 1 }),
      await ask('PATCH', `/app/${app}/endpoint/${limited.id}`, { maxWaiting: 1 }),
    ]
    for (const { status, json } of tricks) {
      assert.equal(status, 403, JSON.stringify(json))
      assert.match(JSON.stringify(json), /drop_new/)
    }
    // Other settings of an endpoint with an operator's limit are still theirs.
    assert.equal((await ask('PATCH', `/app/${app}/endpoint/${limited.id}`, { description: 'x' })).status, 200)

    assert.equal((await ask('PATCH', path, { maxWaiting: 1, overflow: 'drop_new' })).status, 200)
    assert.equal((await ask('PATCH', path, { overflow: 'refuse' })).status, 403)
    assert.equal((await ask('POST', `${path}/pause`)).status, 200)
    for (let i = 0; i < 10; i++) {
      const outcome = await target.client.publish(app, 'x', Buffer.from('{}'))
      assert.equal(outcome.state, 'accepted')
    }
    const { json } = await ask('GET', `/app/${app}/dead`)
    const reasons = (json.data as { reason: string; endpointId: string }[]).filter(
      ({ endpointId }) => endpointId === id,
    )
    assert.deepEqual([...new Set(reasons.map(({ reason }) => reason))], ['overflow'])
    assert.equal(reasons.length, 9)
  })
}
