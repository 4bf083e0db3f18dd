import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { answer, flood, rawReceiver } from '../hostile/raw-receiver.ts'
import { isLong, Target } from './attack.ts'

const goOn = 'HTTP/1.1 100 Continue\r\n\r\n'
/** Endpoints whose receiver never stops to say 100. */
const floods = isLong ? 500 : 50
/** Messages for a receiver that says 100 before each answer, as many as it may say. */
const messages = isLong ? 500 : 20

/**
 * Before, each of these messages was taken by its receiver, recorded as `invalid_http`, and sent again until it was a dead
 * letter: 20 messages made 20 requests, 0 delivered.
 */
test(`${floods} receivers that flood 100 Continue hold nobody up, and an honest one gets each message once`, async (t) => {
  const flooding = await rawReceiver(t, (socket) => flood(socket, goOn.repeat(1000)))
  const honest = await rawReceiver(t, (socket) => void socket.write(goOn.repeat(8) + answer('200 OK')))
  const target = await Target.share(t, 'sqlite')
  const app = await target.newApplication()
  // Servers are shared: one that knows any event type refuses others.
  for (const name of ['honest', 'flood'])
    await target.call('POST', '/event-type', { body: { name, description: name } })
  await target.client.createEndpoint(app, { uid: 'honest', url: honest.url, eventTypes: ['honest'] })
  for (let i = 0; i < floods; i++) {
    await target.client.createEndpoint(app, { url: `${flooding.url}/${i}`, eventTypes: ['flood'] })
  }
  await target.measure('100 Continue, flooded', async () => {
    await target.client.publish(app, 'flood', Buffer.from('{}'))
    for (let i = 0; i < messages; i++) await target.client.publish(app, 'honest', Buffer.from('{}'))
    await eventually('all are delivered', async () => {
      const { text } = await target.call('GET', `/app/${app}/attempt/endpoint/honest?limit=250`)
      const { data } = JSON.parse(text) as { data: readonly { readonly code: string }[] }
      assert.deepEqual(
        data.filter(({ code }) => code !== 'delivered'),
        [],
      )
      return data.length >= Math.min(messages, 250) && honest.requests.length >= messages
    })
    await eventually(
      'each flood has been cut off',
      () => flooding.requests.length >= floods && flooding.open.size === 0,
    )
  })
  assert.equal(honest.requests.length, messages)
})
