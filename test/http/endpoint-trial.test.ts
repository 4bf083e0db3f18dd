import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import type { Received } from '../../receiver/src/index.ts'
import { openVerifier } from '../../src/wire/receiver.ts'
import { openApi } from './api.ts'

const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`

async function receive(
  t: TestContext,
  answer: (request: IncomingMessage, body: Buffer, end: (status: number, text?: string) => void) => void,
): Promise<string> {
  const server: Server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part) => parts.push(part))
    request.on('end', () =>
      answer(request, Buffer.concat(parts), (status, text) => response.writeHead(status).end(text)),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
}

async function open() {
  const opened = await openApi({ checkUrl: (url) => (url.startsWith('http') ? [] : ['is no URL that can be sent to']) })
  await opened.ask('POST', '/app', { name: 'a', uid: 'a' })
  return opened
}

describe('a test of a URL that is no endpoint yet', () => {
  test('sends an example, signed by the secret that the endpoint will have, and stores nothing', async (t) => {
    const { ask, store } = await open()
    const received: Received[] = []
    const url = await receive(t, ({ headers }, body, end) => {
      received.push({ headers, body })
      end(200, `got ${body}`)
    })
    const { status, json } = await ask('POST', '/app/a/endpoint/test', { url, secret })
    assert.equal(status, 200)
    assert.equal(received.length, 1)
    await openVerifier({ secret }).verify(received[0] as Received)
    assert.deepEqual(
      [json.delivered, json.code, json.responseStatusCode, json.response, json.error],
      [true, 'delivered', 200, 'got {"success":true}', null],
    )
    assert.deepEqual(await store.counts(), { pending: 0, dead: 0, messages: 0, attempts: 0 })
  })

  test('says why it failed', async (t) => {
    const { ask } = await open()
    const url = await receive(t, (_request, _body, end) => end(500, 'oh no'))
    const { json } = await ask('POST', '/app/a/endpoint/test', { url })
    assert.deepEqual([json.delivered, json.responseStatusCode, json.response], [false, 500, 'oh no'])
    const unheard = await ask('POST', '/app/a/endpoint/test', { url: 'http://127.0.0.1:1/' })
    assert.deepEqual([unheard.json.delivered, unheard.json.code], [false, 'connect_refused'])
    assert.ok(unheard.json.error)
  })

  test('refuses URLs, secrets and event types that an endpoint may not have', async () => {
    const { ask } = await open()
    await ask('POST', '/api/v1/event-type', { name: 'known', description: '' })
    for (const [body, field] of [
      [{ url: 'ftp://example.com' }, 'url'],
      [{ url: 'http://127.0.0.1:1/', secret: 'whsec_!' }, 'secret'],
    ] as const) {
      const { status, json } = await ask('POST', '/app/a/endpoint/test', body)
      assert.deepEqual([status, json.detail[0].loc], [422, ['body', field]])
    }
    const unknown = await ask('POST', '/app/a/endpoint/test', { url: 'http://127.0.0.1:1/', eventType: 'other' })
    assert.equal(unknown.status, 404)
  })

  test('is one of two at once for an application, so that slow receivers hold up no other caller', async (t) => {
    const { ask } = await open()
    await ask('POST', '/app', { name: 'b', uid: 'b' })
    const ends: (() => void)[] = []
    let heard = () => {}
    const both = new Promise<void>((resolve) => {
      heard = () => (ends.length === 2 ? resolve() : undefined)
    })
    const slow = await receive(t, (_request, _body, end) => {
      ends.push(() => end(204))
      heard()
    })
    const quick = await receive(t, (_request, _body, end) => end(204))
    const first = [1, 2].map(() => ask('POST', '/app/a/endpoint/test', { url: slow }))
    await both
    const refused = await ask('POST', '/app/a/endpoint/test', { url: quick })
    assert.deepEqual([refused.status, refused.json.code], [429, 'rate_limited'])
    assert.equal((await ask('POST', '/app/b/endpoint/test', { url: quick })).json.delivered, true)
    for (const end of ends) end()
    for (const each of await Promise.all(first)) assert.equal(each.json.delivered, true)
    assert.equal((await ask('POST', '/app/a/endpoint/test', { url: quick })).json.delivered, true)
  })

  test('is for portal tokens that may send again, not for those that only look', async (t) => {
    const { ask } = await open()
    const url = await receive(t, (_request, _body, end) => end(204))
    for (const [input, expected] of [
      [{}, 200],
      [{ readOnly: true }, 403],
    ] as const) {
      const { json } = await ask('POST', '/api/v1/auth/app-portal-access/a', input)
      const headers = { authorization: `Bearer ${json.token}` }
      assert.equal((await ask('POST', '/app/a/endpoint/test', { url }, headers)).status, expected)
    }
  })
})

test("an endpoint's signature headers have the names that it really gets", async () => {
  const { ask } = await open()
  await ask('POST', '/app/a/endpoint', { uid: 'e', url: 'http://127.0.0.1:1/' })
  const names = async () => (await ask('GET', '/app/a/endpoint/e/signature')).json
  const standard = { id: 'webhook-id', timestamp: 'webhook-timestamp', signature: 'webhook-signature' }
  await ask('PATCH', '/app/a', { signatureHeaders: 'webhook' })
  assert.deepEqual(await names(), { profile: 'standard', algorithm: 'hmac-sha256', headers: [standard] })
  const key = `whsk_${Buffer.alloc(32, 7).toString('base64')}`
  assert.equal((await ask('POST', '/app/a/endpoint/e/secret/rotate', { key })).status, 200)
  assert.equal((await names()).algorithm, 'ed25519')
  await ask('PATCH', '/app/a', { signatureHeaders: { signature: 'x-acme-signature' } })
  assert.deepEqual((await names()).headers, [{ ...standard, signature: 'x-acme-signature' }])
})

test('a list of messages counts deliveries by status, and keeps those with one of a status', async () => {
  const { ask } = await open()
  await ask('POST', '/app/a/endpoint', { uid: 'e', url: 'http://127.0.0.1:1/' })
  const { json: first } = await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
  await ask('DELETE', `/app/a/msg/${first.id}/content`)
  const { json: second } = await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
  const list = async (query: string) =>
    (await ask('GET', `/app/a/msg?with_content=false&${query}`)).json.data.map(
      ({ id, deliveries }: { id: string; deliveries?: object }) => [id, deliveries],
    )
  const counts = { success: 0, waiting: 0, fail: 0, canceled: 0 }
  assert.deepEqual(await list(''), [
    [second.id, undefined],
    [first.id, undefined],
  ])
  assert.deepEqual(await list('with_status=true'), [
    [second.id, { ...counts, waiting: 1 }],
    [first.id, { ...counts, canceled: 1 }],
  ])
  assert.deepEqual(await list('delivery_status=waiting'), [[second.id, undefined]])
  assert.deepEqual(await list('delivery_status=fail'), [])
})

test('a message with hundreds of endpoints has its deliveries counted in a list, too', async () => {
  const { ask } = await open()
  for (let i = 0; i < 30; i++) await ask('POST', '/app/a/endpoint', { url: `http://127.0.0.1:1/${i}` })
  await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
  for (let i = 30; i < 520; i++) await ask('POST', '/app/a/endpoint', { url: `http://127.0.0.1:1/${i}` })
  await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
  const { json } = await ask('GET', '/app/a/msg?with_content=false&with_status=true&delivery_status=waiting')
  const waiting = json.data.map(({ deliveries }: { deliveries: { waiting: number } }) => deliveries.waiting)
  assert.deepEqual(waiting, [520, 30])
})
