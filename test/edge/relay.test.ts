import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { openVerifier } from '../../receiver/src/index.ts'
import { eventually } from '../e2e/eventually.ts'
import { Receiver } from '../e2e/receiver.ts'
import { Edge, figures, messageId, secret, signed, skip, token } from './edge.ts'

describe('relay', { skip }, () => {
  test('forwards a delivery once, and passes the answer of the receiver back', async (t) => {
    const receiver = await Receiver.listen(t)
    const edge = await Edge.start(t, {
      orders: { mode: 'relay', to: `${receiver.url}/orders?from=edge` },
      kept: { mode: 'relay', to: `${receiver.url}/kept`, dedupe: 'kv' },
      all: { mode: 'relay', to: `${receiver.url}/all`, dedupe: 'none' },
      hub: { mode: 'relay', to: `${receiver.url}/hub`, profile: 'github' },
      small: { mode: 'relay', to: `${receiver.url}/small`, maxBodyBytes: 100 },
      hasty: { mode: 'relay', to: `${receiver.url}/hasty`, timeoutSeconds: 1 },
      gone: { mode: 'relay', to: 'http://127.0.0.1:9/' },
      few: { mode: 'relay', to: `${receiver.url}/few`, maxIds: 100, shards: 1 },
      wrong: { mode: 'relay', to: `${receiver.url}/wrong`, windowSeconds: 3 },
      open: { mode: 'relay', to: 'http://127.0.0.1:9/', allowHttp: false },
    })
    const body = '{"total": 249.00,\n "big": 12345678901234567890, "ü": 1}'

    await t.test('with the same bytes and signature, and without headers of the connection', async () => {
      receiver.behave('/orders?from=edge', () => ({
        status: 201,
        headers: { 'content-type': 'text/plain', 'x-internal': 'no' },
        body: 'thanks',
      }))
      const id = messageId()
      const sent = signed(id, body, {
        headers: {
          authorization: 'Bearer of-the-receiver',
          'x-event-type': 'order.paid',
          'content-encoding': 'identity',
          'x-forwarded-for': '203.0.113.7',
          'cf-connecting-ip': '203.0.113.7',
          te: 'trailers',
        },
      })
      const reply = await edge.send('/orders', sent)
      assert.equal(reply.status, 201)
      assert.equal(reply.body, 'thanks')
      assert.equal(reply.headers['content-type'], 'text/plain')
      assert.equal(reply.headers['sluice-edge'], 'forwarded')
      assert.equal(reply.headers['x-internal'], undefined)
      const [arrival] = receiver.at('/orders?from=edge')
      assert.ok(arrival)
      assert.equal(arrival.body.toString(), body)
      for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature', 'authorization', 'x-event-type'])
        assert.equal(arrival.headers[name], sent.headers[name], name)
      await openVerifier({ secret }).verify(arrival)
      for (const name of ['te', 'cf-connecting-ip', 'transfer-encoding', 'connection'])
        assert.notEqual(arrival.headers[name], sent.headers[name] ?? 'chunked', name)
      assert.equal(arrival.headers['x-forwarded-for'], undefined)
      assert.equal(arrival.headers['content-length'], String(Buffer.byteLength(body)))

      const again = await edge.send('/orders', signed(id, body))
      assert.equal(again.status, 200)
      assert.equal(again.headers['sluice-edge'], 'duplicate')
      assert.equal(receiver.at('/orders?from=edge').length, 1)
    })

    await t.test('and remembers it only after the receiver took it', async () => {
      const answers = [
        { status: 500 },
        { status: 503, headers: { 'retry-after': '7' } },
        { status: 302, headers: { location: `${receiver.url}/elsewhere` } },
        { status: 204 },
      ]
      receiver.behave('/all', () => ({ status: 500 }))
      receiver.behave('/orders?from=edge', () => answers.shift() ?? { status: 200 })
      const before = receiver.at('/orders?from=edge').length
      const id = messageId()
      assert.equal((await edge.send('/orders', signed(id, body))).status, 500)
      const held = await edge.send('/orders', signed(id, body))
      assert.deepEqual([held.status, held.headers['retry-after']], [503, '7'])
      const moved = await edge.send('/orders', signed(id, body))
      assert.deepEqual([moved.status, moved.headers.location], [302, undefined])
      assert.equal((await edge.send('/orders', signed(id, body))).status, 204)
      assert.equal((await edge.send('/orders', signed(id, body))).headers['sluice-edge'], 'duplicate')
      assert.equal(receiver.at('/orders?from=edge').length - before, 4)
      assert.equal(receiver.at('/elsewhere').length, 0)
    })

    await t.test('and not beside itself: of many at once the receiver gets one', async () => {
      const gate = Promise.withResolvers<void>()
      const path = '/orders?from=edge'
      receiver.behave(path, () => gate.promise.then(() => ({ status: 200 })))
      const before = receiver.at(path).length
      const sent = signed(messageId(), body)
      const replies = Array.from({ length: 20 }, () => edge.send('/orders', sent))
      await receiver.until('the receiver has one', () => receiver.at(path).length > before)
      const refusedFirst = await edge.send('/orders', sent)
      assert.equal(refusedFirst.status, 409)
      assert.match(String(refusedFirst.headers['retry-after']), /^[1-9]\d?$/)
      assert.equal(JSON.parse(refusedFirst.body).code, 'in_flight')
      gate.resolve()
      const statuses = (await Promise.all(replies)).map(({ status }) => status)
      assert.equal(receiver.at(path).length - before, 1)
      assert.ok(statuses.every((status) => status === 200 || status === 409))
      assert.ok(statuses.includes(200))
    })

    await t.test('unless it is not genuine', async () => {
      const before = receiver.arrivals.length
      const good = signed(messageId(), body)
      const refused = [
        { ...good, body: body.replace('249', '248') },
        { ...good, headers: { ...good.headers, 'webhook-id': messageId() } },
        { ...good, headers: { ...good.headers, 'webhook-signature': 'v1,AAAA' } },
        { ...good, headers: { 'content-type': 'application/json' } },
        signed(messageId(), body, { ageSeconds: 400 }),
        signed(messageId(), body, { ageSeconds: -400 }),
        signed(messageId(), body, { key: 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' }),
      ]
      for (const each of refused) {
        const reply = await edge.send('/orders', each)
        assert.equal(reply.status, 401)
        assert.equal(JSON.parse(reply.body).code, 'not_genuine')
      }
      assert.equal(receiver.arrivals.length, before)
    })

    await t.test('and a recorded request cannot pass for another delivery', async () => {
      // The profile signs the body alone, so the id can be changed.
      const victim = messageId()
      const recorded = signed(messageId(), '{"recorded": true}', { profile: 'github' })
      const forged = { ...recorded, headers: { ...recorded.headers, 'webhook-id': victim } }
      assert.equal((await edge.send('/hub', forged)).status, 200)
      const real = await edge.send('/hub', signed(victim, body, { profile: 'github' }))
      assert.equal(real.headers['sluice-edge'], 'forwarded')
      assert.deepEqual(
        receiver.at('/hub').map((arrival) => arrival.body.toString()),
        ['{"recorded": true}', body],
      )
      const nameless = signed('x', body, { profile: 'github' })
      delete (nameless.headers as Record<string, string>)['webhook-id']
      assert.equal((await edge.send('/hub', nameless)).status, 400)
    })

    await t.test('also by KV, which remembers successes alone', async () => {
      const answers = [{ status: 500 }]
      receiver.behave('/kept', () => answers.shift() ?? { status: 200 })
      const id = messageId()
      const outcomes: unknown[] = []
      for (let i = 0; i < 4; i++) outcomes.push((await edge.send('/kept', signed(id, body))).headers['sluice-edge'])
      assert.deepEqual(outcomes, ['forwarded', 'forwarded', 'duplicate', 'duplicate'])
      assert.equal(receiver.at('/kept').length, 2)
    })

    await t.test('or as often as it comes, without a memory', async () => {
      receiver.behave('/all', () => ({ status: 200 }))
      const id = messageId()
      for (let i = 0; i < 3; i++) assert.equal((await edge.send('/all', signed(id, body))).status, 200)
      assert.equal(receiver.at('/all').length, 3)
    })

    await t.test('and says when the receiver does not answer', async () => {
      const gate = Promise.withResolvers<void>()
      receiver.behave('/hasty', () => gate.promise.then(() => ({ status: 200 })))
      const id = messageId()
      const late = await edge.send('/hasty', signed(id, body))
      assert.deepEqual([late.status, JSON.parse(late.body).code], [504, 'target_timeout'])
      gate.resolve()
      await eventually(
        'it is forwarded again',
        async () => (await edge.send('/hasty', signed(id, body))).status === 200,
      )
      const nobody = await edge.send('/gone', signed(messageId(), body))
      assert.deepEqual([nobody.status, JSON.parse(nobody.body).code], [502, 'unreachable'])
    })

    await t.test('within bounds of body, headers, method and path', async () => {
      const before = receiver.arrivals.length
      const long = signed(messageId(), 'x'.repeat(101))
      const many = Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`x-${i}`, '1']))
      const cases: [string, Parameters<Edge['send']>[1], number, string][] = [
        ['/small', long, 413, 'body_too_large'],
        ['/small', signed(messageId(), '{}', { headers: many }), 431, 'headers_too_large'],
        ['/small', signed(messageId(), '{}', { headers: { 'x-long': 'x'.repeat(33_000) } }), 431, 'headers_too_large'],
        ['/small', signed(messageId(), '{}', { headers: { 'sluice-edge': 'forwarded' } }), 508, 'loop'],
        ['/small', { method: 'GET' }, 405, 'method_not_allowed'],
        ['/small', { method: 'PUT', body: '{}' }, 405, 'method_not_allowed'],
        ['/', signed(messageId(), '{}'), 404, 'unknown_route'],
        ['/Small', signed(messageId(), '{}'), 404, 'unknown_route'],
        ['/small/', signed(messageId(), '{}'), 404, 'unknown_route'],
        ['/small/../../etc', signed(messageId(), '{}'), 404, 'unknown_route'],
        ['//small', signed(messageId(), '{}'), 404, 'unknown_route'],
        ['/__proto__', signed(messageId(), '{}'), 404, 'unknown_route'],
        ['/wrong', signed(messageId(), '{}'), 500, 'misconfigured'],
        ['/open', signed(messageId(), '{}'), 500, 'misconfigured'],
      ]
      for (const [path, sent, status, code] of cases) {
        const reply = await edge.send(path, sent)
        assert.deepEqual([reply.status, JSON.parse(reply.body).code], [status, code], path)
      }
      // Without a length the body is counted while it is read.
      const chunked = await rawly(edge.url, [
        'POST /small HTTP/1.1\r\nhost: evil.example\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n',
        ...Array.from({ length: 50 }, () => `3\r\nabc\r\n`),
        '0\r\n\r\n',
      ])
      assert.match(chunked, /^HTTP\/1\.1 413 /)
      assert.equal(receiver.arrivals.length, before)
    })

    await t.test('to no other origin, whatever the request line and the host say', async () => {
      const elsewhere = await Receiver.listen(t)
      const { headers } = signed(messageId(), '{}')
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
      for (const target of [`${elsewhere.url}/small`, '/small?to=http://evil.example/', '/small#x']) {
        const host = new URL(elsewhere.url).host
        const head = `POST ${target} HTTP/1.1\r\nhost: ${host}\r\n${lines.join('')}content-length: 2\r\nconnection: close\r\n\r\n{}`
        await rawly(edge.url, [head])
      }
      assert.equal(elsewhere.arrivals.length, 0)
      assert.ok(receiver.arrivals.every(({ path }) => !path.includes('evil')))
    })

    await t.test('and two lengths of one request never reach the receiver', async () => {
      const before = receiver.arrivals.length
      const { headers } = signed(messageId(), '{}')
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
      const head = `POST /all HTTP/1.1\r\nhost: edge\r\n${lines.join('')}content-length: 2\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n`
      await rawly(edge.url, [
        `${head}2\r\n{}\r\n0\r\n\r\nPOST /smuggled HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n`,
      ])
      const since = receiver.arrivals.slice(before)
      assert.ok(since.every(({ path, headers }) => path === '/all' && headers['transfer-encoding'] === undefined))
    })

    await t.test('and a full memory forgets the oldest', async () => {
      const ids = Array.from({ length: 105 }, messageId)
      for (const id of ids) await edge.send('/few', signed(id, '{}'))
      assert.equal((await edge.send('/few', signed(ids[0] as string, '{}'))).headers['sluice-edge'], 'forwarded')
      assert.equal((await edge.send('/few', signed(ids[104] as string, '{}'))).headers['sluice-edge'], 'duplicate')
      const { ids: kept = 0 } = await figures(edge, 'few')
      assert.ok(kept > 90 && kept <= 100, `${kept} ids`)
    })

    await t.test('and old ids are swept', async () => {
      const [before] = await edge.exec('DeliveryLedger', 'few/0', 'select count(*) as n from delivery')
      assert.ok(Number(before?.n) > 90)
      const id = messageId()
      await edge.send('/few', signed(id, '{}'))
      await edge.exec('DeliveryLedger', 'few/0', 'update delivery set until = 1')
      assert.equal((await edge.send('/few', signed(id, '{}'))).headers['sluice-edge'], 'forwarded')
    })

    await t.test('and a sender that hangs up does not stop the delivery', async () => {
      const gate = Promise.withResolvers<void>()
      const path = '/orders?from=edge'
      receiver.behave(path, () => gate.promise.then(() => ({ status: 200 })))
      const before = receiver.at(path).length
      const id = messageId()
      const { headers } = signed(id, '{"hung": "up"}')
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
      const { hostname, port } = new URL(edge.url)
      const socket = connect(Number(port), hostname)
      socket.write(`POST /orders HTTP/1.1\r\nhost: x\r\n${lines.join('')}content-length: 14\r\n\r\n{"hung": "up"}`)
      await receiver.until('the receiver has it', () => receiver.at(path).length > before)
      socket.destroy()
      gate.resolve()
      await eventually('the delivery is remembered', async () => {
        const reply = await edge.send('/orders', signed(id, '{"hung": "up"}'))
        return reply.headers['sluice-edge'] === 'duplicate'
      })
      assert.equal(receiver.at(path).length - before, 1)
    })

    await t.test('and the operator sees the routes, with the token alone', async () => {
      for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: `Bearer ${token}x` }]) {
        assert.equal((await edge.send('/-/status', { method: 'GET', headers })).status, 401)
      }
      const { status, json } = await edge.operate('GET', '/-/status')
      assert.equal(status, 200)
      assert.deepEqual(Object.keys(json.problems as object), ['wrong', 'open'])
      assert.match(JSON.stringify(json.problems), /windowSeconds does not belong to the mode relay/)
      assert.doesNotMatch(JSON.stringify(json), /whsec_/)
      assert.equal((await edge.send('/-/health', { method: 'GET' })).status, 500)
      assert.equal((await edge.operate('GET', '/-/nothing')).status, 404)
    })

    await t.test('and a payload is never stored', async () => {
      const marker = `payload-${'m'.repeat(40)}`
      assert.equal((await edge.send('/few', signed(messageId(), JSON.stringify({ marker })))).status, 200)
      await edge.kill()
      const files = globSync('**/*', { cwd: edge.folder, withFileTypes: true }).filter((file) => file.isFile())
      assert.ok(files.length > 3)
      for (const { parentPath, name } of files)
        assert.ok(!readFileSync(join(parentPath, name)).includes(marker), `${name} has the payload`)
    })
  })

  test('a delivery is remembered over the death of the edge, and a lease is not kept for long', async (t) => {
    const receiver = await Receiver.listen(t)
    const edge = await Edge.start(t, { orders: { mode: 'relay', to: `${receiver.url}/orders`, timeoutSeconds: 4 } })
    const [taken, open] = [messageId(), messageId()]
    assert.equal((await edge.send('/orders', signed(taken, '{}'))).status, 200)

    const gate = Promise.withResolvers<void>()
    receiver.behave('/orders', () => gate.promise.then(() => ({ status: 200 })))
    const cut = edge.send('/orders', signed(open, '{}')).catch((error: Error) => error)
    await receiver.until('the receiver has both', () => receiver.arrivals.length === 2)
    await edge.kill()
    assert.ok((await cut) instanceof Error)
    gate.resolve()
    await edge.start()

    assert.equal((await edge.send('/orders', signed(taken, '{}'))).headers['sluice-edge'], 'duplicate')
    const statuses: number[] = []
    await eventually('the lease has ended', async () => {
      const { status } = await edge.send('/orders', signed(open, '{}'))
      statuses.push(status)
      return status === 200
    })
    assert.ok(statuses.slice(0, -1).every((status) => status === 409))
    assert.equal(receiver.arrivals.length, 3)
  })
})

/** Sends bytes as they are, and answers the head of the answer. */
function rawly(url: string, parts: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect(Number(port), hostname)
    socket.setEncoding('latin1').on('data', (text) => {
      answer += text
      // The server of workerd waits some seconds for the rest of a request that it refused.
      if (answer.includes('\r\n\r\n')) socket.destroy()
    })
    socket.on('error', () => resolve(answer))
    socket.on('close', () => resolve(answer))
    for (const part of parts) socket.write(part)
  })
}
