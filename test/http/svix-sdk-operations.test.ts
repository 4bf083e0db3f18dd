import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ApiException } from 'svix'
import { eventually } from '../e2e/eventually.ts'
import { adminKey, openSvixWorld } from './svix-world.ts'

describe("Svix's SDK", () => {
  test('finds the server healthy', async (t) => {
    const { svix } = await openSvixWorld(t)
    await svix.health.get()
  })

  test('of version 1 asks with two slashes, and is answered', async (t) => {
    const { serverUrl } = await openSvixWorld(t)
    const headers = { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ name: 'A', uid: 'a', rateLimit: 3 })
    const created = await fetch(`${serverUrl}//api/v1/app/`, { method: 'POST', headers, body })
    assert.equal(created.status, 201)
    assert.equal(((await created.json()) as { rateLimit: number }).rateLimit, 3)
    assert.equal((await fetch(`${serverUrl}//api/v1/app/a/`, { headers })).status, 200)
  })

  test('aggregates usage as tasks', async (t) => {
    const { svix } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.message.create('a', { eventType: 'x', payload: {} })
    const until = new Date(Date.now() + 1000)
    const usage = await svix.statistics.aggregateAppStats({ since: new Date(0), until, appIds: ['a', 'nobody'] })
    assert.deepEqual([usage.task, usage.unresolvedAppIds], ['application.stats', ['nobody']])
    const types = await svix.statistics.aggregateEventTypes()
    assert.equal(types.task, 'event-type.aggregate')
    for (const { id } of [usage, types]) {
      await eventually('the task', async () => (await svix.backgroundTask.get(id)).status === 'finished')
    }
  })
})

describe("Svix's SDK with operational webhooks", () => {
  test('manages the endpoints that hear of what happens here', async (t) => {
    const { svix, receiverUrl } = await openSvixWorld(t)
    const { endpoint } = svix.operationalWebhook
    const created = await endpoint.create({ url: `${receiverUrl}/ok`, uid: 'ops', description: 'ops' })
    assert.deepEqual(await endpoint.get('ops'), created)
    const replaced = await endpoint.upsert('ops', { url: `${receiverUrl}/other`, uid: 'ops' })
    assert.deepEqual([replaced.id, replaced.url], [created.id, `${receiverUrl}/other`])
    assert.deepEqual((await endpoint.list()).data, [replaced])
    const { key } = await endpoint.getSecret('ops')
    await endpoint.rotateSecret('ops', {})
    assert.notEqual((await endpoint.getSecret('ops')).key, key)
    await endpoint.setHeaders('ops', { headers: { 'x-one': '1' } })
    assert.deepEqual((await endpoint.getHeaders('ops')).headers, { 'x-one': '1' })
    await endpoint.delete('ops')
    await assert.rejects(endpoint.get('ops'), (error: ApiException<unknown>) => error.code === 404)
  })
})
