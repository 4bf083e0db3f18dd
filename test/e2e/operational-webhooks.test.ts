import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhook } from 'svix'
import { Compile } from 'typebox/schema'
import { noticeSchemas } from '../../src/features/notices/schemas.ts'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { type Server, startHere } from './server-here.ts'

interface Told {
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

/** The same schema, without room for fields that it does not name. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const inside = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]))
  return 'properties' in inside && inside.type !== undefined ? { ...inside, additionalProperties: false } : inside
}

async function call<T>({ api }: Server, method: string, path: string, body?: unknown): Promise<T> {
  const authorization = { authorization: `Bearer ${apiKey}` }
  const headers = { ...authorization, 'content-type': 'application/json' }
  const init = body === undefined ? { method, headers: authorization } : { method, headers, body: JSON.stringify(body) }
  const response = await fetch(`${api}${path}`, init)
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
  return (text === '' ? undefined : JSON.parse(text)) as T
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`an operational webhook on ${dialect}`, async (t) => {
    const place = await openPlace(t, dialect)
    const first = await Program.start(t, 'serve', place.store)
    let server: Server = first
    const ask = <T>(method: string, path: string, body?: unknown) => call<T>(server, method, path, body)

    await t.test('tells operators of endpoints and messages, once, signed, over a restart', async (each) => {
      const receiver = await Receiver.listen(each)
      receiver.behave('/gone', () => ({ status: 410 }))
      let status = 400
      receiver.behave('/bad', () => ({ status }))
      await ask('POST', '/operational-webhook/endpoint', { url: `${receiver.url}/ops`, uid: 'ops' })
      // It gets nothing: the fate of an operational webhook makes no notice.
      await ask('POST', '/operational-webhook/endpoint', { url: `${receiver.url}/gone`, uid: 'broken' })
      const { key: secret } = await ask<{ key: string }>('GET', '/operational-webhook/endpoint/ops/secret')
      const app = await ask<{ id: string }>('POST', '/app', { name: 'acme', uid: 'acme' })
      const gone = await ask<{ id: string }>('POST', '/app/acme/endpoint', { url: `${receiver.url}/gone`, uid: 'gone' })
      const waits = { waits: { kind: 'list', ms: [10, 10, 10, 10] }, jitter: 'none' }
      const bad = await ask<{ id: string }>('POST', '/app/acme/endpoint', {
        url: `${receiver.url}/bad`,
        uid: 'bad',
        retry: waits,
        disabled: true,
      })
      // Killed with notices in the store that may not have been sent yet.
      await first.kill()
      server = await startHere(t, 'serve', place.store)

      const heard = () =>
        receiver.arrivals
          .filter(({ path }) => path === '/ops')
          .map(({ body, headers }): Told => {
            new Webhook(secret).verify(body, { ...headers })
            return JSON.parse(body.toString())
          })
      const types = () => heard().map(({ type, data }) => `${type} ${data.endpointUid}`)
      const hears = (what: string) => eventually(`${what} is heard`, () => types().includes(what))
      await hears('endpoint.created gone')
      await hears('endpoint.created bad')

      const { id } = await ask<{ id: string }>('POST', '/app/acme/msg', { eventType: 'x', eventId: 'e1', payload: {} })
      await ask('PATCH', '/app/acme/endpoint/bad', { disabled: false })
      await hears('endpoint.enabled bad')
      await hears('endpoint.disabled gone')
      await hears('message.attempt.failing bad')
      await hears('message.attempt.exhausted bad')
      const concerned = { appId: app.id, appUid: 'acme' }
      const disabled = heard().find(({ type }) => type === 'endpoint.disabled')
      assert.deepEqual(
        { ...disabled?.data, failSince: '' },
        { ...concerned, endpointId: gone.id, endpointUid: 'gone', failSince: '', reason: 'gone' },
      )
      assert.match(String(disabled?.data.failSince), /^20.*Z$/)
      const exhausted = heard().find(({ type, data }) => type.endsWith('exhausted') && data.endpointUid === 'bad')
      const { lastAttempt, ...rest } = exhausted?.data ?? {}
      assert.deepEqual(rest, { ...concerned, endpointId: bad.id, endpointUid: 'bad', msgId: id, msgEventId: 'e1' })
      const attempts = await ask<{ data: { id: string; responseStatusCode: number }[] }>(
        'GET',
        `/app/acme/attempt/endpoint/bad`,
      )
      assert.deepEqual(
        { ...(lastAttempt as object), timestamp: '' },
        { id: attempts.data[0]?.id, responseStatusCode: 400, timestamp: '' },
      )

      // A delivery that fails four times and then succeeds has recovered.
      let tries = 0
      receiver.behave('/bad', () => ({ status: ++tries > 4 ? 200 : 400 }))
      status = 200
      await ask('POST', '/app/acme/msg', { eventType: 'x', payload: {} })
      await hears('message.attempt.recovered bad')
      await ask('DELETE', '/app/acme/endpoint/bad')
      await hears('endpoint.deleted bad')

      // The reference describes each of them, with all of its fields.
      for (const told of heard()) {
        const schema = closed(noticeSchemas[told.type]?.body) as object
        assert.deepEqual(Compile(schema).Errors(told)[1], [], JSON.stringify(told))
      }

      const ids = receiver.arrivals.filter(({ path }) => path === '/ops').map(({ headers }) => headers['webhook-id'])
      const distinct = heard().map((told) => JSON.stringify(told))
      // An attempt that was open when the program was killed may come twice, and then with the same id.
      assert.equal(new Set(distinct).size, new Set(ids).size)
      assert.ok(!types().some((type) => type.includes('null')), 'told of an operational endpoint')
    })

    await t.test('misses nothing from the moment its creation is answered', async (each) => {
      const receiver = await Receiver.listen(each)
      receiver.behave('/bad', () => ({ status: 500 }))
      // Another process has the lanes as often as the one that answers.
      if (dialect === 'postgres') await Program.start(t, 'worker', place.store)
      await ask('POST', '/app', { name: 'failing', uid: 'failing' })
      const retry = { waits: { kind: 'list', ms: [] } }
      for (let i = 0; i < 8; i++) {
        await ask('POST', '/app/failing/endpoint', { url: `${receiver.url}/bad`, circuit: 'off', retry })
      }
      const heard = (round: number) => receiver.arrivals.filter(({ path }) => path === `/ops-${round}`).length
      for (let round = 0; round < 3; round++) {
        const url = `${receiver.url}/ops-${round}`
        const body = { url, filterTypes: ['message.attempt.exhausted'] }
        const { id } = await ask<{ id: string }>('POST', '/operational-webhook/endpoint', body)
        await ask('POST', '/app/failing/msg', { eventType: 'x.y', payload: {} })
        await eventually(`round ${round} hears of each of the eight`, () => heard(round) >= 8)
        await ask('DELETE', `/operational-webhook/endpoint/${id}`)
      }
    })
  })
}
