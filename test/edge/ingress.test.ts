import assert from 'node:assert/strict'
import { createHmac, randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { type Arrival, Receiver } from '../e2e/receiver.ts'
import { Edge, figures, type Sent, secret, skip } from './edge.ts'
import { hubSecret, push } from './github.ts'

const bodies = (arrivals: readonly Arrival[]) => arrivals.map(({ body }) => String(body)).sort()

describe('ingress', { skip }, () => {
  test('takes webhooks of providers for Sluice', async (t) => {
    const sluice = await Receiver.listen(t)
    const github = { mode: 'ingress', provider: 'github' }
    const edge = await Edge.start(
      t,
      {
        github: { ...github, to: `${sluice.url}/ingress/src_1` },
        slack: { mode: 'ingress', provider: 'slack', to: `${sluice.url}/ingress/src_2` },
        meta: {
          mode: 'ingress',
          provider: 'meta',
          settings: { verifyToken: 'verify me' },
          to: `${sluice.url}/ingress/3`,
        },
        down: { ...github, to: `${sluice.url}/ingress/down` },
        late: { ...github, to: `${sluice.url}/ingress/late`, timeoutSeconds: 1 },
        refusing: { ...github, to: `${sluice.url}/ingress/refusing` },
        turning: { ...github, to: `${sluice.url}/ingress/turning` },
        small: { ...github, to: 'http://127.0.0.1:9/', maxStored: 2, shards: 1 },
        unknown: { mode: 'ingress', provider: 'nothing', to: `${sluice.url}/` },
        unset: { mode: 'ingress', provider: 'meta', to: `${sluice.url}/` },
        queried: { ...github, to: `${sluice.url}/?a=b` },
      },
      {
        ...Object.fromEntries(
          ['github', 'down', 'late', 'refusing', 'turning', 'small'].map((name) => [name, hubSecret]),
        ),
        slack: 'secret of slack',
      },
    )
    const event = '{"ref": "refs/heads/main",  "n": 1.0}'

    await t.test('with the same bytes, headers and query, and passes the answer of Sluice back', async () => {
      const path = '/ingress/src_1?a=b&c=%20d'
      sluice.behave(path, () => ({
        status: 202,
        headers: { 'content-type': 'application/json' },
        body: '{"id":"msg_1"}',
      }))
      const sent = push(event)
      const reply = await edge.send('/github?a=b&c=%20d', sent)
      assert.deepEqual([reply.status, reply.body, reply.headers['sluice-edge']], [202, '{"id":"msg_1"}', 'forwarded'])
      const [arrival] = sluice.at(path)
      assert.equal(String(arrival?.body), event)
      for (const [name, value] of Object.entries(sent.headers)) assert.equal(arrival?.headers[name], value, name)
    })

    await t.test('unless they are not genuine', async () => {
      const before = sluice.arrivals.length
      const good = push(event)
      const forged = [
        { ...good, body: `${event} ` },
        { ...good, headers: { ...good.headers, 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` } },
        { ...good, headers: { 'content-type': 'application/json' } },
      ]
      for (const each of forged) {
        const reply = await edge.send('/github', each)
        assert.deepEqual([reply.status, JSON.parse(reply.body).code], [401, 'not_genuine'])
      }
      assert.equal((await edge.send('/github', { method: 'GET' })).status, 405)
      assert.equal(sluice.arrivals.length, before)
      assert.equal((await figures(edge, 'github')).stored, 0)
    })

    await t.test('and answers handshakes itself', async () => {
      const before = sluice.arrivals.length
      const ping = await edge.send('/github', push('{"zen": "Keep it"}', randomUUID(), 'ping'))
      assert.deepEqual([ping.status, ping.body], [200, 'pong'])
      const slack = await edge.send('/slack', fromSlack('{"type": "url_verification", "challenge": "abc"}'))
      assert.deepEqual([slack.status, slack.body], [200, 'abc'])
      const query = '?hub.mode=subscribe&hub.challenge=123&hub.verify_token='
      const meta = await edge.send(`/meta${query}verify%20me`, { method: 'GET' })
      assert.deepEqual([meta.status, meta.body], [200, '123'])
      assert.equal((await edge.send(`/meta${query}wrong`, { method: 'GET' })).status, 401)
      assert.equal(sluice.arrivals.length, before)
    })

    await t.test('and keeps them while Sluice is down', async () => {
      let isDown = true
      const took = () => sluice.at('/ingress/down').filter(({ status }) => status === 202)
      sluice.behave('/ingress/down', () => ({ status: isDown ? 503 : 202 }))
      const events = Array.from({ length: 30 }, (_, n) => `{"n":${n}}`)
      for (const each of events) {
        const delivery = randomUUID()
        const reply = await edge.send('/down', push(each, delivery))
        assert.deepEqual([reply.status, reply.headers['sluice-edge']], [202, 'stored'])
        // GitHub sends an event again when it did not see the answer.
        await edge.send('/down', push(each, delivery))
      }
      assert.equal((await figures(edge, 'down')).stored, events.length)
      assert.ok(sluice.at('/ingress/down').length < events.length, 'a target in trouble is left alone')
      await edge.kill()
      await edge.start()
      isDown = false
      await sluice.until('all are handed on', () => took().length >= events.length)
      assert.deepEqual(bodies(took()), [...events].sort())
      await eventually('nothing is stored', async () => (await figures(edge, 'down')).stored === 0)
    })

    await t.test('and when Sluice takes too long', async () => {
      const gate = Promise.withResolvers<void>()
      sluice.behave('/ingress/late', () => gate.promise.then(() => ({ status: 202 })))
      const reply = await edge.send('/late', push(event))
      assert.deepEqual([reply.status, reply.headers['sluice-edge']], [202, 'stored'])
      gate.resolve()
      await eventually('it is handed on', async () => (await figures(edge, 'late')).stored === 0)
      assert.equal((await figures(edge, 'late')).failures, 0)
    })

    await t.test('and answers as the provider expects', async () => {
      sluice.behave('/ingress/src_2', () => ({ status: 202, body: '{"id":"msg_1"}' }))
      const taken = await edge.send('/slack', fromSlack('{"type": "event_callback", "event_id": "Ev0"}'))
      assert.deepEqual([taken.status, taken.body, taken.headers['sluice-edge']], [200, '', 'forwarded'])
      sluice.behave('/ingress/src_2', () => ({ status: 500 }))
      const reply = await edge.send('/slack', fromSlack('{"type": "event_callback", "event_id": "Ev1"}'))
      assert.deepEqual([reply.status, reply.body], [200, ''])
      assert.equal((await figures(edge, 'slack')).stored, 1)
    })

    await t.test('and a refusal of Sluice is passed back, or becomes a failure', async () => {
      sluice.behave('/ingress/refusing', () => ({ status: 404, body: '{"code":"not_found"}' }))
      const refused = await edge.send('/refusing', push(event))
      assert.deepEqual([refused.status, refused.body], [404, '{"code":"not_found"}'])
      assert.equal((await figures(edge, 'refusing')).stored, 0)

      const answers = [{ status: 500 }, { status: 401 }]
      sluice.behave('/ingress/turning?x=1', () => answers.shift() ?? { status: 202 })
      const delivery = randomUUID()
      assert.equal((await edge.send('/turning?x=1', push(event, delivery))).status, 202)
      await eventually('a failure is kept', async () => (await figures(edge, 'turning')).failures === 1)
      const { json } = await edge.operate('GET', '/-/failures/turning')
      const [failure] = json.failures as { failure: string; id: string; reason: string }[]
      assert.deepEqual([failure?.id, failure?.reason], [delivery, 'the target answered 401'])
    })

    await t.test('up to a bound', async () => {
      const statuses: number[] = []
      for (let n = 0; n < 4; n++) statuses.push((await edge.send('/small', push(`{"n":${n}}`))).status)
      assert.deepEqual(statuses, [202, 202, 429, 429])
    })

    await t.test('and says which routes are wrong', async () => {
      const { problems } = (await edge.operate('GET', '/-/status')).json as { problems: Record<string, string> }
      assert.deepEqual(Object.keys(problems).sort(), ['queried', 'unknown', 'unset'])
      assert.match(problems.unknown ?? '', /provider must be one of github, stripe/)
      assert.match(problems.unset ?? '', /settings\.verifyToken is required/)
      assert.match(problems.queried ?? '', /must have no query/)
      assert.doesNotMatch(JSON.stringify(problems), new RegExp(secret))
    })
  })
})

function fromSlack(body: string): Sent {
  const timestamp = String(Math.floor(Date.now() / 1000))
  const signature = createHmac('sha256', 'secret of slack').update(`v0:${timestamp}:${body}`).digest('hex')
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'x-slack-request-timestamp': timestamp,
      'x-slack-signature': `v0=${signature}`,
    },
  }
}
