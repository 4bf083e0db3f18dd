import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type ApiException, BackgroundTaskStatus, BackgroundTaskType, Ordering, Webhook } from 'svix'
import { eventually } from '../e2e/eventually.ts'
import { adminKey, collect, openSvixWorld } from './svix-world.ts'

describe("Svix's SDK with endpoints", () => {
  test('creates, gets, lists, patches, upserts and deletes them', async (t) => {
    const { svix } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.eventType.create({ name: 'video.trending', description: 'A video trends' })
    const created = await svix.endpoint.create('a', {
      url: 'https://example.com/hook',
      uid: 'e',
      description: 'first',
      eventTypes: ['video.trending'],
      channels: ['c'],
      throttleRate: 9,
      metadata: { k: 'v' },
      headers: { 'x-team': 'blue' },
    })
    assert.match(created.id, /^ep_/)
    assert.deepEqual(
      [created.uid, created.description, created.eventTypes, created.channels, created.throttleRate, created.disabled],
      ['e', 'first', ['video.trending'], ['c'], 9, false],
    )
    assert.deepEqual(await svix.endpoint.get('a', 'e'), created)
    assert.deepEqual((await svix.endpoint.getHeaders('a', 'e')).headers, { 'x-team': 'blue' })

    const patched = await svix.endpoint.patch('a', 'e', { disabled: true, eventTypes: null, channels: null })
    assert.deepEqual(
      [patched.disabled, patched.eventTypes, patched.channels, patched.throttleRate],
      [true, null, null, 9],
    )
    const replaced = await svix.endpoint.upsert('a', 'e', { url: 'https://example.com/other', uid: 'e' })
    assert.deepEqual(
      [replaced.id, replaced.url, replaced.description, replaced.throttleRate],
      [created.id, 'https://example.com/other', '', null],
    )
    const made = await svix.endpoint.upsert('a', 'f', { url: 'https://example.com/f', uid: 'f' })
    assert.notEqual(made.id, created.id)

    const listed = await collect((iterator) =>
      svix.endpoint.list('a', { limit: 1, iterator, order: Ordering.Ascending }),
    )
    assert.deepEqual(listed, [replaced, made])
    await svix.endpoint.delete('a', 'e')
    await assert.rejects(svix.endpoint.get('a', 'e'), (error: ApiException<unknown>) => error.code === 404)
  })

  test('rotates a secret, and both sign until the old one has expired', async (t) => {
    const { svix, receiverUrl, received } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: `${receiverUrl}/ok`, uid: 'e' })
    const { key: before } = await svix.endpoint.getSecret('a', 'e')
    await svix.endpoint.rotateSecret('a', 'e', {})
    const { key: after } = await svix.endpoint.getSecret('a', 'e')
    assert.notEqual(after, before)
    const chosen = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
    await svix.endpoint.rotateSecret('a', 'e', { key: chosen })
    assert.equal((await svix.endpoint.getSecret('a', 'e')).key, chosen)
    await svix.message.create('a', { eventType: 'x', payload: { a: 1 } })
    const arrival = await eventually('the message', () => received[0])
    assert.equal(String(arrival.headers['webhook-signature']).split(' ').length, 3)
    for (const key of [before, after, chosen]) {
      new Webhook(key).verify(arrival.body, arrival.headers as Record<string, string>)
    }
  })

  test('a rotation is answered as each version of the SDKs reads it', async (t) => {
    const { svix, serverUrl } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: 'https://example.com/e', uid: 'e' })
    await svix.operationalWebhook.endpoint.create({ url: 'https://example.com/o', uid: 'o' })
    const rotate = async (path: string, userAgent: string) => {
      const headers = {
        authorization: `Bearer ${adminKey}`,
        'content-type': 'application/json',
        'user-agent': userAgent,
      }
      const answer = await fetch(`${serverUrl}/api/v1${path}/secret/rotate`, { method: 'POST', headers, body: '{}' })
      return [answer.status, (await answer.text()) !== '']
    }
    const [endpoint, operational] = ['/app/a/endpoint/e', '/operational-webhook/endpoint/o']
    assert.deepEqual(await rotate(endpoint, 'svix-libs/1.99.1/java jre/21'), [204, false])
    assert.deepEqual(await rotate(endpoint, 'svix-libs/2.6.2/kotlin'), [204, false])
    assert.deepEqual(await rotate(endpoint, 'svix-libs/2.7.0/python python/3.13'), [200, true])
    assert.deepEqual(await rotate(endpoint, 'svix-libs/3.0.0/go'), [200, true])
    assert.deepEqual(await rotate(endpoint, 'curl/8.5.0'), [200, true])
    assert.deepEqual(await rotate(operational, 'svix-libs/2.9.1/python python/3.13'), [204, false])
    assert.deepEqual(await rotate(operational, 'curl/8.5.0'), [200, true])
  })

  test("verifies deliveries with Svix's header names, by the server's setting or the application's", async (t) => {
    const { svix, serverUrl, receiverUrl, received } = await openSvixWorld(t, { signatureHeaders: 'both' })
    const names = () => Object.keys(received.at(-1)?.headers ?? {}).filter((name) => /^(svix|webhook)-/.test(name))
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: `${receiverUrl}/ok`, uid: 'e' })
    const { key } = await svix.endpoint.getSecret('a', 'e')
    const verified = async (count: number) => {
      await svix.message.create('a', { eventType: 'x', payload: { a: 1 } })
      const arrival = await eventually('the message', () => received[count - 1])
      const headers = arrival.headers as Record<string, string>
      const svixOnly = Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('svix-')))
      new Webhook(key).verify(arrival.body, svixOnly)
    }
    await verified(1)
    assert.equal(names().length, 6)
    const answer = await fetch(`${serverUrl}/api/v1/app/a`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ signatureHeaders: 'svix' }),
    })
    assert.equal(answer.status, 200)
    await verified(2)
    assert.deepEqual(names().sort(), ['svix-id', 'svix-signature', 'svix-timestamp'])
  })

  test('sets, patches and reads headers, and sensitive ones come back by name alone', async (t) => {
    const { svix, receiverUrl, received } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: `${receiverUrl}/ok`, uid: 'e' })
    await svix.endpoint.setHeaders('a', 'e', { headers: { 'x-one': '1', 'x-two': '2', authorization: 'Bearer s' } })
    const set = await svix.endpoint.getHeaders('a', 'e')
    assert.deepEqual([set.headers, set.sensitive], [{ 'x-one': '1', 'x-two': '2' }, ['authorization']])
    await svix.endpoint.patchHeaders('a', 'e', { headers: { 'x-one': 'one' }, deleteHeaders: ['x-two'] })
    assert.deepEqual((await svix.endpoint.getHeaders('a', 'e')).headers, { 'x-one': 'one' })
    await svix.message.create('a', { eventType: 'x', payload: {} })
    const { headers } = await eventually('the message', () => received[0])
    assert.deepEqual([headers['x-one'], headers['x-two'], headers.authorization], ['one', undefined, 'Bearer s'])
  })

  test('sends an example, and counts what became of it', async (t) => {
    const { svix, receiverUrl, received } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: `${receiverUrl}/ok`, uid: 'e' })
    const sent = await svix.endpoint.sendExample('a', 'e', { eventType: 'svix.ping' })
    assert.equal(sent.eventType, 'svix.ping')
    await eventually('the example', () => received[0])
    await eventually('its success', async () => (await svix.endpoint.getStats('a', 'e')).success === 1)
    const { success, pending, sending, fail, canceled } = await svix.endpoint.getStats('a', 'e')
    assert.deepEqual([success, pending, sending, fail, canceled], [1, 0, 0, 0, 0])
  })

  test('recovers a message that fails again with one attempt, or by the policy if the endpoint asks for it', async (t) => {
    const settings = { minRetryWait: '0ms', failuresPerMinute: '0', circuitFailures: '0' }
    const { svix, serverUrl, receiverUrl, received } = await openSvixWorld(t, settings)
    const patch = async (body: object) => {
      const headers = { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' }
      const url = `${serverUrl}/api/v1/app/a/endpoint/e`
      assert.equal((await fetch(url, { method: 'PATCH', headers, body: JSON.stringify(body) })).status, 200)
    }
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: `${receiverUrl}/500`, uid: 'e' })
    await patch({ retry: { waits: { kind: 'list', ms: [1] }, jitter: 'none' } })
    const { id, timestamp } = await svix.message.create('a', { eventType: 'x', payload: {} })
    const failedAfter = (attempts: number) =>
      eventually(`failed after ${attempts} attempts`, async () => {
        const [destination] = (await svix.messageAttempt.listAttemptedDestinations('a', id)).data
        const { data } = await svix.messageAttempt.listByMsg('a', id)
        assert.ok(data.length <= attempts, `${data.length} attempts`)
        return destination?.statusText === 'fail' && data.length === attempts
      })
    await failedAfter(2)
    const since = new Date(timestamp.getTime() - 1000)
    await svix.endpoint.recover('a', 'e', { since })
    await failedAfter(3)
    await svix.messageAttempt.resend('a', id, 'e')
    await failedAfter(4)
    await patch({ retryReplays: true })
    await svix.endpoint.recover('a', 'e', { since })
    await failedAfter(6)
    assert.equal(received.length, 6)
  })

  test('recovers, replays what is missing and replays in bulk, each a task that ends', async (t) => {
    const { svix, receiverUrl, received } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: `${receiverUrl}/410`, uid: 'e' })
    const message = await svix.message.create('a', { eventType: 'x', payload: { a: 1 } })
    await eventually('the 410', async () => (await svix.endpoint.get('a', 'e')).disabled)
    await svix.endpoint.patch('a', 'e', { url: `${receiverUrl}/ok`, disabled: false })
    const since = new Date(message.timestamp.getTime() - 1000)

    const recovering = await svix.endpoint.recover('a', 'e', { since })
    assert.deepEqual([recovering.task, typeof recovering.status], ['endpoint.recover', 'string'])
    await eventually('recovery', () => received.some(({ path }) => path === '/ok'))
    await eventually('its task', async () => (await svix.backgroundTask.get(recovering.id)).status === 'finished')

    await svix.endpoint.create('a', { url: `${receiverUrl}/late`, uid: 'late' })
    const replaying = await svix.endpoint.replayMissing('a', 'late', { since })
    assert.equal(replaying.task, 'endpoint.replay')
    await eventually('the missing one', () => received.some(({ path }) => path === '/late'))
    // A delivery whose attempt is not recorded yet is still queued, and a replay leaves it as it is.
    await eventually(
      'its record',
      async () => (await svix.messageAttempt.listByEndpoint('a', 'late')).data.length === 1,
    )

    const again = await svix.endpoint.bulkReplay('a', 'late', { since, eventTypes: ['x'] })
    assert.equal(again.task, 'endpoint.bulk-replay')
    await eventually('both', () => received.filter(({ path }) => path === '/late').length === 2)
    for (const id of [replaying.id, again.id]) {
      await eventually('its task', async () => (await svix.backgroundTask.get(id)).status === 'finished')
    }
    const tasks = await svix.backgroundTask.list()
    assert.deepEqual(tasks.data.map(({ id }) => id).sort(), [recovering.id, replaying.id, again.id].sort())
    const recoveries = await svix.backgroundTask.list({
      task: BackgroundTaskType.EndpointRecover,
      status: BackgroundTaskStatus.Finished,
    })
    assert.deepEqual(
      recoveries.data.map(({ id }) => id),
      [recovering.id],
    )
  })
})
