import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { openSvixWorld, type SvixWorld } from './svix-world.ts'

/** One message that one endpoint took and another refused. */
async function attempted(t: TestContext): Promise<SvixWorld & { id: string }> {
  const world = await openSvixWorld(t)
  const { svix, receiverUrl } = world
  await svix.application.create({ name: 'A', uid: 'a' })
  await svix.endpoint.create('a', { url: `${receiverUrl}/ok`, uid: 'good' })
  await svix.endpoint.create('a', { url: `${receiverUrl}/500`, uid: 'bad' })
  const { id } = await svix.message.create('a', { eventType: 'x', payload: { n: 1 }, channels: ['c'], tags: ['t'] })
  await eventually('both attempts', async () => (await svix.messageAttempt.listByMsg('a', id)).data.length === 2)
  return { ...world, id }
}

describe("Svix's SDK with attempts", () => {
  test('lists them by message and by endpoint, with every filter', async (t) => {
    const { svix, id, receiverUrl } = await attempted(t)
    const good = await svix.endpoint.get('a', 'good')
    const [attempt] = (await svix.messageAttempt.listByEndpoint('a', 'good', { withContent: true })).data
    assert.ok(attempt)
    assert.deepEqual(
      [attempt.msgId, attempt.endpointId, attempt.url, attempt.response, attempt.responseStatusCode],
      [id, good.id, `${receiverUrl}/ok`, 'heard', 200],
    )
    assert.deepEqual([attempt.status, attempt.statusText, attempt.triggerType], [0, 'success', 0])
    assert.ok(attempt.responseDurationMs >= 0)
    assert.ok(Math.abs(attempt.timestamp.getTime() - Date.now()) < 60_000)

    const count = async (list: Promise<{ data: unknown[] }>) => (await list).data.length
    const { messageAttempt } = svix
    assert.equal(await count(messageAttempt.listByMsg('a', id, { status: 2 })), 1)
    assert.equal(await count(messageAttempt.listByMsg('a', id, { statusCodeClass: 500 })), 1)
    assert.equal(await count(messageAttempt.listByMsg('a', id, { endpointId: 'good' })), 1)
    assert.equal(await count(messageAttempt.listByMsg('a', id, { channel: 'other' })), 0)
    assert.equal(await count(messageAttempt.listByMsg('a', id, { before: new Date(0) })), 0)
    assert.equal(await count(messageAttempt.listByEndpoint('a', 'bad', { status: 0 })), 0)
    assert.equal(await count(messageAttempt.listByEndpoint('a', 'bad', { statusCodeClass: 500 })), 1)
    assert.equal(await count(messageAttempt.listByEndpoint('a', 'bad', { eventTypes: ['y'] })), 0)
    assert.equal(await count(messageAttempt.listByEndpoint('a', 'bad', { channel: 'c', tag: 't' })), 1)
    assert.equal(await count(messageAttempt.listByEndpoint('a', 'bad', { after: new Date(Date.now() + 60_000) })), 0)
    const [withMessage] = (await messageAttempt.listByEndpoint('a', 'good', { withMsg: true, withContent: true })).data
    assert.deepEqual(withMessage?.msg?.payload, { n: 1 })
  })

  test('lists the messages of an endpoint and the endpoints of a message', async (t) => {
    const { svix, id } = await attempted(t)
    const [message] = (await svix.messageAttempt.listAttemptedMessages('a', 'bad', { withContent: true })).data
    assert.deepEqual(
      [message?.id, message?.payload, message?.status, message?.statusText],
      [id, { n: 1 }, 3, 'sending'],
    )
    assert.ok(message?.nextAttempt && message.nextAttempt.getTime() > message.timestamp.getTime())
    for (const [status, count] of [
      [0, 0],
      [1, 0],
      [2, 0],
      [3, 1],
    ] as const) {
      const { data: shown } = await svix.messageAttempt.listAttemptedMessages('a', 'bad', { status })
      assert.equal(shown.length, count, `status ${status}`)
    }
    assert.equal((await svix.messageAttempt.listAttemptedMessages('a', 'good', { status: 0 })).data.length, 1)
    const { data } = await svix.messageAttempt.listAttemptedDestinations('a', id)
    const standing = data.map(({ uid, statusText }) => `${uid} ${statusText}`)
    assert.deepEqual(standing.sort(), ['bad sending', 'good success'])
  })

  test('gets one, expunges what was answered, and sends again by hand', async (t) => {
    const { svix, id, received } = await attempted(t)
    const [attempt] = (await svix.messageAttempt.listByEndpoint('a', 'good', { withContent: true })).data
    assert.ok(attempt)
    assert.deepEqual(await svix.messageAttempt.get('a', id, attempt.id), attempt)
    await svix.messageAttempt.expungeContent('a', id, attempt.id)
    assert.equal((await svix.messageAttempt.get('a', id, attempt.id)).response, 'EXPUNGED')
    const before = received.filter(({ path }) => path === '/ok').length
    await svix.messageAttempt.resend('a', id, 'good')
    await eventually('a second arrival', () => received.filter(({ path }) => path === '/ok').length === before + 1)
    const manual = await eventually('its attempt', async () => {
      const { data } = await svix.messageAttempt.listByEndpoint('a', 'good')
      return data.find(({ triggerType }) => triggerType === 1)
    })
    assert.equal(manual.status, 0)
  })
})
