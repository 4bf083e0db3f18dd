import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Target } from '../../src/sender/send.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { exampleMessage, send, targetAt, testSender } from './sending.ts'

/** The lines of the head of one delivery, and its outcome. */
async function headOf(t: TestContext, target: Partial<Target>, message: object = {}) {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK', 'ok')))
  const whole = { timeoutMs: 10_000, endpointId: 'ep_2', ...target }
  const { outcome } = await send(testSender(t), targetAt(receiver.url, whole), { ...exampleMessage, ...message })
  return { outcome, lines: receiver.requests[0]?.head.split('\r\n') ?? [] }
}

test('templates send values of the delivery under names in their own case, and an own User-Agent', async (t) => {
  const headerTemplates = {
    'X-VVV-Event': '{eventType}',
    'X-VVV-Delivery-Id': '{deliveryId}',
    'x-try': 'n{attempt}',
    X_At: '{timestamp}',
    'USER-AGENT': 'Acme/1.0',
  }
  const { lines } = await headOf(t, { headerTemplates }, { eventType: 'video.new' })
  assert.ok(lines.includes('X-VVV-Event: video.new'), lines.join('\n'))
  assert.ok(lines.includes(`X-VVV-Delivery-Id: ${exampleMessage.id}.ep_2`))
  assert.ok(lines.includes('x-try: n1'))
  const at = lines.find((line) => line.startsWith('X_At: '))?.slice(6)
  assert.ok(lines.includes(`webhook-timestamp: ${at}`))
  const agents = lines.filter((line) => /^user-agent:/i.test(line))
  assert.deepEqual(agents, ['USER-AGENT: Acme/1.0'])
})

test('templates give way to headers of the endpoint, of the message and of the signature', async (t) => {
  const headerTemplates = { 'X-A': 'template', 'x-b': 'template', 'X-C': 'template', 'My-Signature': 'template' }
  const { lines } = await headOf(
    t,
    { headers: { 'x-a': 'endpoint' }, headerTemplates, signatureHeaders: { signature: 'my-signature' } },
    { headers: { 'X-B': 'message' } },
  )
  const found = (name: RegExp) => lines.filter((line) => name.test(line))
  assert.deepEqual(found(/^x-a:/i), ['x-a: endpoint'])
  assert.deepEqual(found(/^x-b:/i), ['X-B: message'])
  assert.deepEqual(found(/^x-c:/i), ['X-C: template'])
  assert.equal(found(/^my-signature:/i).length, 1)
  assert.match(found(/^my-signature:/i)[0] ?? '', /^my-signature: v1,/)
})

test('a GET has the headers of templates, too', async (t) => {
  const { lines } = await headOf(t, { method: 'GET', headerTemplates: { 'X-Id': '{messageId}' } })
  assert.equal(lines[0], 'GET /hook HTTP/1.1')
  assert.ok(lines.includes(`X-Id: ${exampleMessage.id}`))
  assert.ok(lines.some((line) => line.startsWith('webhook-signature: v1,')))
})

test('nothing is sent to an endpoint whose stored template holds a line break, or for a value that does', async (t) => {
  const stored = await headOf(t, { headerTemplates: { 'X-A': 'a\r\nX-Evil: 1' } })
  assert.deepEqual([stored.outcome.code, stored.lines], ['blocked', []])
  const inserted = await headOf(t, { headerTemplates: { 'X-A': '{eventType}' } }, { eventType: 'a\r\nX-Evil: 1' })
  assert.deepEqual([inserted.outcome.code, inserted.lines], ['blocked', []])
})
