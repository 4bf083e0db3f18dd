import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkHeader, isSensitiveHeader, wireHeaders } from '../../src/wire/headers.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { exampleMessage, send, targetAt, testSender } from '../sender/sending.ts'

const reserved = [
  ...['host', 'content-length', 'transfer-encoding', 'connection', 'keep-alive', 'upgrade', 'te', 'trailer', 'expect'],
  ...[
    'proxy-authorization',
    'proxy-anything',
    'webhook-id',
    'webhook-signature',
    'webhook-anything',
    'content-encoding',
  ],
  ...['user-agent', 'accept-encoding', 'svix-id', 'x-svix-anything'],
  ...['x-amz-date', 'x-amzn-trace-id', 'x-goog-meta', 'x-google-anything', 'x-azure-ref', 'x-fd-healthprobe'],
]

test('a header Sluice or the protocol decides cannot be set, however it is written', () => {
  for (const name of reserved) {
    assert.match(checkHeader(name, 'x') ?? '', /reserved/)
    assert.match(checkHeader(name.toUpperCase(), 'x') ?? '', /reserved/)
  }
})

test('a name or value that would break the request is named', () => {
  for (const name of ['', 'a b', 'a:b', 'a\r\nb', 'ä', 'a'.repeat(257), '__proto__', 'a/b', 'a(b)', 'a@b'])
    assert.ok(checkHeader(name, 'x'), name)
  for (const value of ['a\r\nb: c', 'a\nb', 'a\rb', 'a\0b', 'a\x7f', '\u0100', '\u{1f600}', 'a'.repeat(4097)]) {
    assert.ok(checkHeader('x-a', value), JSON.stringify(value))
    assert.equal(wireHeaders({ 'x-a': value }), undefined)
  }
  for (const name of ['x_tenant', 'x.tenant', 'X-Tenant', '_', "!#$%&'*+-.^_`|~"]) {
    assert.equal(checkHeader(name, 'x'), undefined, name)
  }
  for (const value of ['', 'a b', 'Bearer abc==', 'caf\xe9', 'a\tb']) assert.equal(checkHeader('X-A', value), undefined)
})

test("an endpoint's own headers arrive, and reserved ones among them are left out", async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const headers = {
    Authorization: 'Bearer abc',
    'x-tenant': 'caf\xe9',
    ...Object.fromEntries(reserved.map((name) => [name, 'e-v-i-l'])),
  }
  const { outcome } = await send(testSender(t), targetAt(receiver.url, { headers }))

  assert.equal(outcome.code, 'delivered')
  const head = receiver.requests[0]?.head ?? ''
  assert.match(head, /^Authorization: Bearer abc$/m)
  assert.match(head, /^x-tenant: caf\xe9$/m)
  assert.doesNotMatch(head, /e-v-i-l/)
})

test("the content type of a request is the message's own header, else the endpoint's, else that of the publish", async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const sender = testSender(t)
  const types = async (headers: Record<string, string>, ofMessage?: Record<string, string>) => {
    const before = receiver.requests.length
    const message = { ...exampleMessage, ...(ofMessage && { headers: ofMessage }) }
    const { outcome } = await send(sender, targetAt(receiver.url, { headers }), message)
    assert.equal(outcome.code, 'delivered', outcome.error)
    return [...(receiver.requests[before]?.head ?? '').matchAll(/^content-type: (.*)$/gim)].map(([, type]) => type)
  }
  assert.deepEqual(await types({}), [exampleMessage.contentType])
  assert.deepEqual(await types({ 'Content-Type': 'application/cloudevents+json' }), ['application/cloudevents+json'])
  assert.deepEqual(await types({ 'content-type': 'a/b' }, { 'Content-Type': 'c/d', 'x-a': '1' }), ['c/d'])
  assert.deepEqual(await types({ 'x-b': '2' }, { 'x-a': '1' }), [exampleMessage.contentType])
})

test('a header with a line break blocks the endpoint, and no byte leaves', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  for (const headers of [{ 'x-a': 'b\r\nx-injected: 1' }, { 'x-a\r\nx-injected': '1' }]) {
    const { outcome, leaves } = await send(testSender(t), targetAt(receiver.url, { headers }))
    assert.equal(outcome.code, 'blocked')
    assert.equal(leaves, 0)
  }
  assert.equal(receiver.connections, 0)
})

test('no value of a stored message can break the head of a request, and no byte leaves', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const sender = testSender(t)
  const evil = 'x\r\nx-injected: 1\r\n\r\nPOST /admin HTTP/1.1'
  const rows = [
    ['content-type', {}, { contentType: evil }],
    ['webhook-id', {}, { id: evil }],
    ['x-sluice-signature', { signature: 'stored' }, { signature: evil }],
    ['content-type', {}, { contentType: 'a\0b' }],
    ['content-type', {}, { contentType: 'a\u2028b' }],
  ] as const
  for (const [name, target, message] of rows) {
    const { outcome, leaves } = await send(sender, targetAt(receiver.url, target), { ...exampleMessage, ...message })
    assert.equal(outcome.code, 'blocked', outcome.error)
    assert.match(outcome.error ?? '', new RegExp(`header ${name} `))
    assert.equal(leaves, 0)
  }
  for (const signatureHeaders of [{ id: 'a\r\nb' }, { signature: 'a: b' }, { timestamp: '' }]) {
    const { outcome, leaves } = await send(sender, targetAt(receiver.url, { signatureHeaders }))
    assert.deepEqual([outcome.code, leaves], ['blocked', 0])
  }
  const { outcome } = await send(sender, targetAt(receiver.url), { ...exampleMessage, headers: { 'x-a': evil } })
  assert.equal(outcome.code, 'delivered')
  assert.equal(receiver.requests.length, 1)
  assert.doesNotMatch(receiver.requests[0]?.head ?? '', /injected/)
})

test('a header is a secret by its name', () => {
  const secrets = [
    'Authorization',
    'x-api-key',
    'apikey',
    'X-Auth-Token',
    'cookie',
    'www-authenticate',
    'client-secret',
  ]
  for (const name of [
    ...secrets,
    'x_api_key',
    'acme.token',
    'x-auth',
    'token',
    'X-Signature',
    'password',
    'x-acmeapikey-2',
  ]) {
    assert.equal(isSensitiveHeader(name), true, name)
  }
  for (const name of ['x-tenant', 'x-keyboard', 'x-author', 'accept', 'x-tokenized', 'x-monkey', 'x-region']) {
    assert.equal(isSensitiveHeader(name), false, name)
  }
})
