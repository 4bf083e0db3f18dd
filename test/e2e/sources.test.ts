import assert from 'node:assert/strict'
import { createHmac, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import { openPlace, pendingCount } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { type Server, startHere } from './server-here.ts'

const secret = "It's a Secret to Everybody"

/** The source of GitHub's webhooks at a server, and the endpoint behind it. */
async function connect(server: Server, receiver: Receiver): Promise<string> {
  const ask = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    const response = await fetch(`${server.api}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    const text = await response.text()
    assert.ok(response.ok, text)
    return JSON.parse(text)
  }
  await ask('/app', { name: 'Shop', uid: 'shop' })
  const headerTemplates = {
    'X-Hub-Signature-256': '{header:x-hub-signature-256}',
    'X-GitHub-Event': '{header:X-GitHub-Event}',
    'X-Missing': '[{header:x-missing}]',
  }
  await ask('/app/shop/endpoint', { url: `${receiver.url}/hook`, headerTemplates })
  const { url } = await ask('/app/shop/source', { provider: 'github', secret })
  return new URL(url).pathname
}

const sign = (body: string | Buffer) => `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`

/** Sends a webhook as GitHub does; the status, or undefined when the server was gone. */
async function send(url: string, body: string | Buffer, delivery: string, type = 'application/json') {
  const headers = {
    'content-type': type,
    'x-github-event': 'push',
    'x-github-delivery': delivery,
    'x-hub-signature-256': sign(body),
  }
  try {
    const response = await fetch(url, { method: 'POST', headers, body: new Uint8Array(Buffer.from(body)) })
    await response.arrayBuffer()
    return response.status
  } catch {
    return undefined
  }
}

const originOf = ({ api }: Server) => new URL(api).origin

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`a source on ${dialect}`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const first = await Program.start(t, 'serve', place.store)
    let server: Server = first
    const path = await connect(server, receiver)
    await t.test('gives the endpoint the bytes, the content type and the headers that the sender sent', async () => {
      const bodies: [Buffer, string][] = [
        [Buffer.from('{ "a":1.0,\r\n"b" : 12345678901234567890, "ü":"\\u00fc" }\n'), 'application/json; charset=utf-8'],
        [Buffer.from('payload=%7B%22a%22%3A1%7D&x=+y'), 'application/x-www-form-urlencoded'],
        [Buffer.from([0xff, 0x00, 0x0a, 0xfe]), 'application/octet-stream'],
        [Buffer.from('<?xml version="1.0"?><a>é</a>', 'latin1'), 'text/xml; charset=iso-8859-1'],
      ]
      for (const [body, type] of bodies)
        assert.equal(await send(originOf(server) + path, body, randomUUID(), type), 202)
      await receiver.until('all are delivered', () => receiver.at('/hook').length === bodies.length)
      const came = receiver.at('/hook').map(({ body, headers }) => [body.toString('base64'), headers['content-type']])
      assert.deepEqual(came.sort(), bodies.map(([body, type]) => [body.toString('base64'), type]).sort())
      for (const { body, headers } of receiver.at('/hook')) {
        // The receiver can verify the signature of the sender, because nothing changed on the way.
        assert.deepEqual(
          [headers['x-hub-signature-256'], headers['x-github-event'], headers['x-missing']],
          [sign(body), 'push', '[]'],
        )
      }
    })

    await t.test('delivers once what it answered with 202 before the server was killed', async () => {
      const before = receiver.at('/hook').length
      const answered = new Set<string>()
      const unknown = new Set<string>()
      let accepted = 0
      const produce = async () => {
        for (;;) {
          const id = randomUUID()
          const status = await send(originOf(server) + path, JSON.stringify({ id }), id)
          if (status !== 202) return void unknown.add(id)
          answered.add(id)
          if (++accepted === 40) void first.kill()
        }
      }
      await Promise.all(Array.from({ length: 8 }, produce))
      await first.kill()
      server = await startHere(t, 'serve', place.store)
      // The sender tries again what it has no answer for, as GitHub's user does.
      for (const id of unknown) assert.equal(await send(originOf(server) + path, JSON.stringify({ id }), id), 202)
      await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
      const messages = new Map<string, Set<string>>()
      for (const { body, headers } of receiver.at('/hook').slice(before)) {
        const { id } = JSON.parse(body.toString())
        messages.set(id, (messages.get(id) ?? new Set()).add(headers['webhook-id'] ?? ''))
      }
      for (const id of [...answered, ...unknown]) assert.equal(messages.get(id)?.size, 1, `event ${id}`)
      assert.equal(messages.size, answered.size + unknown.size)
    })
  })
}
