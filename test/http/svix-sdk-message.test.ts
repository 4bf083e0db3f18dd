import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type ApiException, BackgroundTaskStatus, BackgroundTaskType, messageInRaw, Svix, Webhook } from 'svix'
import { eventually } from '../e2e/eventually.ts'
import { adminKey, collect, openSvixWorld } from './svix-world.ts'

describe("Svix's SDK with messages", () => {
  test('publishes one that arrives, verified by its own library', async (t) => {
    const { svix, receiverUrl, received } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: `${receiverUrl}/ok`, uid: 'e' })
    const payload = { text: 'héllo', list: [1, 2], nested: { a: null } }
    const sent = await svix.message.create('a', { eventType: 'user.signup', eventId: 'ev-1', payload, channels: ['c'] })
    assert.match(sent.id, /^msg_/)
    assert.deepEqual([sent.eventType, sent.eventId, sent.channels], ['user.signup', 'ev-1', ['c']])
    const { body, headers } = await eventually('the message', () => received[0])
    const { key } = await svix.endpoint.getSecret('a', 'e')
    new Webhook(key).verify(body, headers as Record<string, string>)
    assert.deepEqual(JSON.parse(body), payload)
    assert.equal(headers['webhook-id'], sent.id)
  })

  test('gets and lists them with and without their content, by every filter', async (t) => {
    const { svix } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    const first = await svix.message.create('a', {
      eventType: 'x.one',
      payload: { n: 1 },
      channels: ['c'],
      tags: ['t'],
    })
    const second = await svix.message.create('a', { eventType: 'x.two', payload: { n: 2 }, eventId: 'two' })
    assert.deepEqual((await svix.message.get('a', 'two', { withContent: true })).payload, { n: 2 })
    assert.deepEqual((await svix.message.get('a', 'two', { withContent: false })).payload, {})
    const ids = async (options: Parameters<typeof svix.message.list>[1]) =>
      (await svix.message.list('a', options)).data.map(({ id }) => id)
    assert.deepEqual(await ids({}), [second.id, first.id])
    assert.deepEqual(await ids({ eventTypes: ['x.one', 'x.three'] }), [first.id])
    assert.deepEqual(await ids({ channel: 'c' }), [first.id])
    assert.deepEqual(await ids({ tag: 't' }), [first.id])
    assert.deepEqual(await ids({ after: new Date(Date.now() + 60_000) }), [])
    assert.deepEqual(await ids({ before: new Date(Date.now() + 60_000) }), [second.id, first.id])
    const walked = await collect((iterator) => svix.message.list('a', { limit: 1, iterator, withContent: true }))
    assert.deepEqual(
      walked.map(({ payload }) => payload),
      [{ n: 2 }, { n: 1 }],
    )
  })

  test('expunges what one said, and keeps that it was', async (t) => {
    const { svix } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    const { id } = await svix.message.create('a', { eventType: 'x', payload: { secret: 1 } })
    await svix.message.expungeContent('a', id)
    assert.deepEqual((await svix.message.get('a', id, { withContent: true })).payload, { expired: true })
  })

  test('expunges what several said, or all of an application, and follows the task', async (t) => {
    const { svix } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    const { id } = await svix.message.create('a', { eventType: 'x', payload: { secret: 1 } })
    await svix.message.create('a', { eventType: 'x', eventId: 'raw', payload: { secret: 2 } })
    const { results } = await svix.message.bulkExpungeContent('a', { ids: [id, 'nobody'] })
    assert.deepEqual(results, { [id]: 'expunged', nobody: 'not-found' })
    assert.deepEqual((await svix.message.get('a', 'raw', { withContent: true })).payload, { secret: 2 })
    const task = await svix.message.expungeAllContents('a')
    assert.equal(task.task, BackgroundTaskType.ApplicationPurgeContent)
    await eventually('the task ends', async () => {
      return (await svix.backgroundTask.get(task.id)).status === BackgroundTaskStatus.Finished
    })
    assert.deepEqual((await svix.message.get('a', 'raw', { withContent: true })).payload, { expired: true })
  })

  test('asks beforehand whether anybody wants one', async (t) => {
    const { svix, receiverUrl } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.eventType.create({ name: 'x', description: 'x' })
    assert.equal((await svix.message.precheck('a', { eventType: 'x' })).active, false)
    await svix.endpoint.create('a', { url: `${receiverUrl}/ok`, eventTypes: ['x'] })
    assert.equal((await svix.message.precheck('a', { eventType: 'x' })).active, true)
    assert.equal((await svix.message.precheck('a', { eventType: 'y' })).active, false)
  })

  test('sends raw payloads of any content type, and messages for later', async (t) => {
    const { svix, receiverUrl, received } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: `${receiverUrl}/ok` })
    await svix.message.create('a', messageInRaw('x', '<a>  raw </a>', 'application/xml'))
    const { body, headers } = await eventually('the raw one', () => received[0])
    assert.deepEqual([body, headers['content-type']], ['<a>  raw </a>', 'application/xml'])
    const deliverAt = new Date(Date.now() + 3_600_000)
    const later = await svix.message.create('a', { eventType: 'later', payload: {}, deliverAt, tags: ['t'] })
    assert.deepEqual([later.deliverAt, later.tags], [deliverAt, ['t']])
    // The store's clock decides when that is, and it need not be this machine's.
    const stored = (await svix.message.get('a', later.id)).deliverAt
    assert.ok(stored && Math.abs(stored.getTime() - deliverAt.getTime()) < 1000)
  })

  test('creates the application with the message when asked to', async (t) => {
    const { svix } = await openSvixWorld(t)
    await svix.message.create('new-one', { eventType: 'x', payload: {}, application: { name: 'New', uid: 'new-one' } })
    assert.equal((await svix.application.get('new-one')).name, 'New')
  })

  test('gets the same answer for the same idempotency key, and publishes once', async (t) => {
    const { svix, store, serverUrl } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    const message = { eventType: 'x', payload: { a: 1 } }
    const first = await svix.message.create('a', message, { idempotencyKey: 'once' })
    assert.deepEqual(await svix.message.create('a', message, { idempotencyKey: 'once' }), first)
    await assert.rejects(
      svix.message.create('a', { eventType: 'y', payload: {} }, { idempotencyKey: 'once' }),
      (error: ApiException<unknown>) => error.code === 422,
    )
    assert.equal((await store.counts()).messages, 1)

    // The answer to the first try is lost on its way, so the SDK tries again with the same key.
    let lost = 0
    const lossy: typeof fetch = async (...request) => {
      const response = await fetch(...request)
      if (lost++ > 0) return response
      await response.arrayBuffer()
      throw new TypeError('the connection broke')
    }
    const retrying = new Svix(adminKey, { serverUrl, fetch: lossy, retryScheduleInMs: [1] })
    const second = await retrying.message.create('a', { eventType: 'x', payload: { b: 2 } })
    assert.equal(lost, 2)
    assert.equal((await store.counts()).messages, 2)
    assert.notEqual(second.id, first.id)
  })
})
