import assert from 'node:assert/strict'
import { test } from 'node:test'
import { request } from 'undici'
import { serveAcme, serveAcmeBy } from './acme.ts'
import { eventually } from './eventually.ts'
import { apiKey, Program } from './program.ts'
import type { Server } from './server-here.ts'

type Line = Record<string, unknown>

const noRetry = { waits: { kind: 'list', ms: [] } }
const secret = 'a-very-secret-value'

/** The lines of the log about attempts. */
function linesOf({ logged }: Server): Line[] {
  const lines = logged.split('\n').filter((line) => line.startsWith('{'))
  return lines.map((line) => JSON.parse(line) as Line).filter(({ msg }) => /^attempt \d/.test(String(msg)))
}

async function publish({ api }: Server, eventType: string, headers: Record<string, string> = {}): Promise<string> {
  const reply = await request(`${api}/app/acme/msg`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ eventType, payload: { secret }, headers: { 'x-secret': secret } }),
  })
  const answer = (await reply.body.json()) as { id: string }
  assert.equal(reply.statusCode, 202, JSON.stringify(answer))
  return answer.id
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`each attempt has one line in the log, without payload, secrets and headers (${dialect})`, async (t) => {
    // A process of its own: all that it writes is searched for the secret.
    const settings = { SLUICE_LOG_ATTEMPTS: 'all' }
    const { server, client, receiver } = await serveAcmeBy(Program.start, t, dialect, settings)
    receiver.behave('/bad', () => ({ status: 500, headers: { 'x-answer': secret, location: `/${secret}` } }))
    const headers = { 'x-own': secret }
    const good = await client.createEndpoint('acme', { url: `${receiver.url}/good?key=${secret}`, headers })
    const retry = { waits: { kind: 'list', ms: [50] }, jitter: 'none' }
    const bad = await client.createEndpoint('acme', { url: `${receiver.url}/bad`, eventTypes: ['b'], retry })
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const first = await publish(server, 'a')
    await eventually('a line', () => linesOf(server).length === 1)
    const second = await publish(server, 'b', { traceparent })
    await eventually('a line per attempt', () => linesOf(server).length === 4)

    const [delivered] = linesOf(server)
    assert.ok(delivered)
    const { time, app, id, waitMs, durationMs, connectMs, firstByteMs, ...rest } = delivered
    assert.deepEqual(rest, {
      level: 30,
      endpoint: good.id,
      message: first,
      eventType: 'a',
      attempt: 1,
      code: 'delivered',
      status: 200,
      reused: false,
      requestBytes: Buffer.byteLength(JSON.stringify({ secret })),
      responseBytes: 0,
      state: 'delivered',
      msg: `attempt 1: delivered 200 in ${durationMs} ms`,
    })
    assert.match(String(app), /^app_/)
    assert.match(String(id), /^atmpt_/)
    for (const ms of [waitMs, durationMs, connectMs, firstByteMs]) assert.ok(Number.isInteger(ms), String(ms))
    assert.match(String(time), /^\d{4}-/)

    const failed = linesOf(server).filter(({ endpoint }) => endpoint === bad.id)
    assert.deepEqual(
      failed.map(({ message, attempt, code, status, state, reason }) => [
        message,
        attempt,
        code,
        status,
        state,
        reason,
      ]),
      [
        [second, 1, 'refused', 500, 'waiting', undefined],
        [second, 2, 'refused', 500, 'dead', 'exhausted'],
      ],
    )
    assert.match(String(failed[0]?.next), /^\d{4}-.*Z$/)
    assert.equal(failed[1]?.next, undefined)
    assert.equal(failed[0]?.traceId, traceparent.slice(3, 35))
    assert.ok(!server.logged.includes(secret), 'no secret, payload or header is logged')
    assert.ok(!server.logged.includes(receiver.url), 'no URL is logged')
  })
}

test('with `failed` only failed attempts are logged, and as text each is one line', async (t) => {
  const settings = { SLUICE_LOG_ATTEMPTS: 'failed', SLUICE_LOG_FORMAT: 'text' }
  const { server, client, receiver } = await serveAcme(t, 'sqlite', settings)
  receiver.behave('/bad', () => ({ status: 503 }))
  await client.createEndpoint('acme', { url: `${receiver.url}/good` })
  const bad = await client.createEndpoint('acme', { url: `${receiver.url}/bad`, retry: noRetry })
  const id = await publish(server, 'a')
  const line = await eventually('a line', () => /^.*attempt 1: .*$/m.exec(server.logged)?.[0])
  await eventually('both arrived', () => receiver.arrivals.length === 2)
  assert.match(line, /^.* info {2}attempt 1: refused 503 in \d+ ms \(app=app_\w+, .*reason=exhausted\)$/)
  assert.ok(line.includes(`endpoint=${bad.id}, message=${id}, eventType=a`), line)
  await publish(server, 'a')
  await eventually('another line', () => server.logged.match(/attempt 1: /g)?.length === 2)
  assert.ok(!server.logged.includes('delivered'))
})

test('without the setting no attempt is logged', async (t) => {
  const { server, client, receiver } = await serveAcme(t)
  await client.createEndpoint('acme', { url: `${receiver.url}/good` })
  const id = await publish(server, 'a')
  await eventually('it is recorded', async () => (await client.attempts('acme', id)).length === 1)
  assert.ok(!server.logged.includes('attempt'), server.logged)
})
