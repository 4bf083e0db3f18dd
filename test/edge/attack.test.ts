import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { Receiver } from '../e2e/receiver.ts'
import { Edge, figures, messageId, signed, skip } from './edge.ts'

describe('attacks on the edge', { skip }, () => {
  test('garbage and floods are refused, and genuine deliveries go on', async (t) => {
    const receiver = await Receiver.listen(t)
    const edge = await Edge.start(t, {
      relay: { mode: 'relay', to: `${receiver.url}/relay` },
      coalesce: { mode: 'coalesce', to: `${receiver.url}/coalesce`, key: '/a/0/b', type: '/type', windowSeconds: 1 },
      ingress: { mode: 'ingress', to: `${receiver.url}/ingress`, provider: 'standard' },
    })
    const modes = ['relay', 'coalesce', 'ingress']

    await t.test('bodies that are no JSON, deep, broken or binary', async () => {
      const bodies = [
        '',
        'null',
        '[',
        '{"a"',
        '{"a":[{"b":',
        '{"a":[{"b":"\\ud800"}]}',
        '{"a":[{"b":"unended',
        '['.repeat(100_000),
        `${'{"a":'.repeat(50_000)}1`,
        '{"a":[{"b":1},{"b":2}],"a":3}',
        '\uFEFF{"a":[{"b":1}]}',
        Buffer.from([0xff, 0xfe, 0, 1, 0x22]),
        Buffer.alloc(900_000, 0x22),
        '{"__proto__":{"a":[{"b":1}]}}',
      ]
      for (const body of bodies) {
        for (const mode of modes) {
          const id = messageId()
          const { status } = await edge.send(`/${mode}`, signed(id, body))
          assert.ok(status === 200 || status === 202, `${mode} answered ${status} to ${String(body).slice(0, 30)}`)
        }
      }
      await eventually('all are forwarded', async () => (await figures(edge, 'coalesce')).stored === 0)
      const came = new Set(receiver.at('/coalesce').map(({ body }) => body.toString('base64')))
      const missing = bodies.filter((body) => !came.has(Buffer.from(body).toString('base64')))
      // Two have the same key, and one of them gave way.
      assert.ok(missing.length <= 1, String(missing))
    })

    await t.test('headers that no sender would send', async () => {
      const { headers } = signed(messageId(), '{}')
      const odd: Record<string, string>[] = [
        { 'webhook-id': '' },
        { 'webhook-id': 'x'.repeat(5000) },
        { 'webhook-timestamp': 'NaN' },
        { 'webhook-timestamp': '-1' },
        { 'webhook-timestamp': '9'.repeat(400) },
        { 'webhook-timestamp': '1e3' },
        { 'webhook-signature': 'v1,'.repeat(5000) },
        { 'webhook-signature': ' '.repeat(3000) },
        { 'webhook-signature': `v1a,${'A'.repeat(88)}` },
        { 'webhook-signature': 'v1,ä' },
      ]
      for (const each of odd) {
        for (const mode of modes) {
          const { status } = await edge.send(`/${mode}`, { headers: { ...headers, ...each }, body: '{}' })
          assert.equal(status, 401, `${mode}: ${JSON.stringify(each).slice(0, 60)}`)
        }
      }
    })

    await t.test('bytes that are no HTTP', async () => {
      const lines = [
        '\0\0\0\0',
        'GET',
        'POST /relay HTTP/9.9\r\n\r\n',
        'POST /relay HTTP/1.1\r\nhost: a\r\nhost: b\r\ncontent-length: -1\r\n\r\n',
        'POST /relay HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n',
      ]
      for (const line of lines) await hangUp(edge.url, line)
    })

    await t.test('a thousand forged requests among genuine ones', async () => {
      const body = '{"a":[{"b":"flood"}]}'
      const genuine = Array.from({ length: 100 }, () => edge.send('/relay', signed(messageId(), body)))
      const key = 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
      const forged = Array.from({ length: 1000 }, (_, i) =>
        edge.send(`/${modes[i % 3]}`, signed(messageId(), body, { key })),
      )
      const before = receiver.at('/relay').length
      assert.deepEqual(new Set((await Promise.all(genuine)).map(({ status }) => status)), new Set([200]))
      assert.deepEqual(new Set((await Promise.all(forged)).map(({ status }) => status)), new Set([401]))
      assert.ok(receiver.at('/relay').length - before <= 100)
      assert.equal((await figures(edge, 'ingress')).stored, 0)
    })

    await t.test('a body that never ends its arrival', async () => {
      const socket = connect(Number(new URL(edge.url).port), '127.0.0.1')
      const { headers } = signed(messageId(), '{}')
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
      socket.write(`POST /relay HTTP/1.1\r\nhost: edge\r\n${lines.join('')}content-length: 1000\r\n\r\n{`)
      const drip = setInterval(() => socket.write(' '), 500)
      let answer = ''
      socket.setEncoding('latin1').on('data', (text) => {
        answer += text
      })
      await eventually('it is refused', () => answer.includes('\r\n\r\n'))
      clearInterval(drip)
      socket.destroy()
      assert.match(answer, /^HTTP\/1\.1 408 /)
    })
    assert.equal((await edge.send('/relay', signed(messageId(), '{}'))).status, 200)
  })

  test('a hostile receiver costs its own deliveries and no more', async (t) => {
    const behaviours: Record<string, RequestListener> = {
      '/endless': (_, response) => {
        response.writeHead(200, { 'content-type': 'text/plain' })
        const more = () => {
          while (!response.destroyed && response.write('x'.repeat(65_536)));
        }
        response.on('drain', more)
        more()
      },
      '/dripping': (_, response) => {
        response.writeHead(200)
        response.write('ok')
      },
      '/reset': (request) => request.socket.destroy(),
      '/wide': (_, response) => {
        for (let i = 0; i < 100; i++) response.setHeader(`x-${i}`, 'y'.repeat(100))
        response.writeHead(200, { 'set-cookie': 'a=b', 'retry-after': 'x'.repeat(1000), 'content-encoding': 'gzip' })
        response.end('not gzip')
      },
      '/odd': (_, response) => response.writeHead(599, { 'retry-after': '999999999' }).end(),
      '/empty': (_, response) => response.writeHead(204).end(),
      '/forever': (_, response) => response.writeHead(503, { 'retry-after': '999999999' }).end(),
    }
    const url = await served(t, (request, response) => behaviours[request.url ?? '']?.(request, response))
    const names = Object.keys(behaviours).map((path) => path.slice(1))
    const routes = names.map((name) => [name, { mode: 'relay', to: `${url}/${name}`, timeoutSeconds: 4 }])
    const held = { mode: 'coalesce', key: '/k', windowSeconds: 1, shards: 1, retryForSeconds: 604_800 }
    const edge = await Edge.start(t, { ...Object.fromEntries(routes), held: { ...held, to: `${url}/forever` } })

    const statuses: Record<string, number> = {}
    for (const name of names) {
      const { status, body, headers } = await edge.send(`/${name}`, signed(messageId(), '{}'))
      statuses[name] = status
      assert.ok(body.length <= 16_384, `${name}: ${body.length}`)
      assert.equal(headers['set-cookie'], undefined)
      assert.equal(headers['x-1'], undefined)
    }
    assert.deepEqual(statuses, {
      endless: 200,
      dripping: 200,
      reset: 502,
      wide: 200,
      odd: 599,
      empty: 204,
      forever: 503,
    })
    // A Retry-After of thirty years holds a shard for an hour.
    await edge.send('/held', signed(messageId(), '{"k": 1}'))
    const until = await eventually('the shard is held', async () => {
      const { heldUntil } = (await figures(edge, 'held')) as { heldUntil?: unknown }
      return typeof heldUntil === 'string' && heldUntil
    })
    assert.ok(Date.parse(until) < Date.now() + 3_700_000, until)
    assert.equal((await figures(edge, 'held')).stored, 1)
  })
})

async function served(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Writes bytes and hangs up when an answer or the end comes. */
function hangUp(url: string, text: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.on('error', () => resolve())
    socket.on('close', () => resolve())
    socket.on('data', () => socket.destroy())
    socket.end(text, 'latin1')
  })
}
