import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Admission } from '../../src/intake/admission.ts'
import { Publisher } from '../../src/intake/publisher.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import { observed } from '../../src/metrics/observed-store.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { type Api, openApi } from './api.ts'

const url = 'http://127.0.0.1:9/'
const bounds = { maxWaiting: 500, overflow: 'drop_oldest', maxAgeSeconds: 3600, whileDisabled: 'drop' }
const usual = { maxWaiting: null, overflow: 'refuse', maxAgeSeconds: null, whileDisabled: 'hold' }

/** The API with a publisher that counts what waits. */
async function apiWith(): Promise<Api> {
  const { store, app } = await openApi()
  await app.close()
  const limits = { perEndpoint: 3, perApplication: 100, server: 100, commitDelayMs: 10_000 }
  const ledger = new Ledger({ store, clock: systemClock, isTold: true })
  const admission = new Admission(limits, ledger)
  const told = observed(store, systemClock, [ledger, admission])
  const publisher = new Publisher({ store: told, clock: systemClock, admission })
  const api = await openApi({ store, publisher })
  await api.ask('POST', '/app', { name: 'Acme', uid: 'acme' })
  return api
}

function boundsOf({ maxWaiting, overflow, maxAgeSeconds, whileDisabled }: typeof usual) {
  return { maxWaiting, overflow, maxAgeSeconds, whileDisabled }
}

describe("an endpoint's bounds", () => {
  test('are set, changed, replaced and unset', async () => {
    const api = await apiWith()
    const path = '/app/acme/endpoint/e'
    const created = await api.ask('POST', '/app/acme/endpoint', { url, uid: 'e', ...bounds })
    assert.equal(created.status, 201)
    assert.deepEqual(boundsOf(created.json), bounds)
    assert.deepEqual(boundsOf((await api.ask('GET', path)).json), bounds)
    const patched = await api.ask('PATCH', path, { overflow: 'drop_new', maxAgeSeconds: null })
    assert.deepEqual(boundsOf(patched.json), { ...bounds, overflow: 'drop_new', maxAgeSeconds: null })
    const unset = { maxWaiting: null, overflow: null, whileDisabled: null }
    assert.deepEqual(boundsOf((await api.ask('PATCH', path, unset)).json), usual)
    await api.ask('PATCH', path, bounds)
    assert.deepEqual(boundsOf((await api.ask('PUT', path, { url })).json), usual)
  })

  test('are refused when they are none', async () => {
    const api = await apiWith()
    for (const [field, wrong] of [
      ['maxWaiting', 0],
      ['maxWaiting', 1.5],
      ['overflow', 'drop'],
      ['maxAgeSeconds', 0],
      ['maxAgeSeconds', 1e12],
      ['whileDisabled', true],
    ] as const) {
      const { status, json } = await api.ask('POST', '/app/acme/endpoint', { url, [field]: wrong })
      assert.equal(status, 422, `${field} ${wrong}`)
      assert.deepEqual(json.detail[0].loc, ['body', field])
    }
  })
})

describe('a message', () => {
  const publish = (api: Api, more: object) => api.ask('POST', '/app/acme/msg', { eventType: 'a', payload: {}, ...more })

  test('says until when it is wanted, by the instant or by seconds, in every way to publish', async () => {
    const api = await apiWith()
    await api.ask('POST', '/app/acme/endpoint', { url, maxWaiting: 100 })
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString()
    const near = (text: string) => assert.ok(Math.abs(Date.parse(text) - Date.parse(expiresAt)) < 5000, text)
    const { json } = await publish(api, { expiresAt })
    assert.equal(json.expiresAt, expiresAt)
    near((await api.ask('GET', `/app/acme/msg/${json.id}`)).json.expiresAt)
    near((await publish(api, { expiresInSeconds: 3600 })).json.expiresAt)
    const batch = { messages: [{ eventType: 'a', payload: {}, expiresAt }] }
    near((await api.ask('POST', '/app/acme/msg/batch', batch)).json.data[0].expiresAt)
    const raw = await api.ask('POST', `/app/acme/msg/raw?event_type=a&expires_at=${expiresAt}`, 'x', {
      'content-type': 'text/plain',
    })
    near(raw.json.expiresAt)
    assert.equal((await publish(api, {})).json.expiresAt, null)
    assert.equal((await publish(api, { expiresAt: null, expiresInSeconds: null })).json.expiresAt, null)
  })

  test('is refused when that is no instant, too far off, said twice, or before it is to be delivered', async () => {
    const api = await apiWith()
    const hour = (n: number) => new Date(Date.now() + n * 3_600_000).toISOString()
    for (const [wrong, field] of [
      [{ expiresAt: 'soon' }, 'expiresAt'],
      [{ expiresAt: '2126-01-01T00:00:00Z' }, 'expiresAt'],
      [{ expiresInSeconds: 0 }, 'expiresInSeconds'],
      [{ expiresInSeconds: 60, expiresAt: hour(1) }, 'expiresAt'],
      [{ deliverAt: hour(2), expiresAt: hour(1) }, 'expiresAt'],
      [{ deliverAt: hour(2), expiresInSeconds: 60 }, 'expiresAt'],
    ] as const) {
      const { status, json } = await publish(api, wrong)
      assert.equal(status, 422, JSON.stringify(wrong))
      assert.deepEqual(json.detail[0].loc, ['body', field])
    }
    const raw = await api.ask('POST', '/app/acme/msg/raw?event_type=a&expires_at=2126-01-01T00:00:00Z', 'x')
    assert.deepEqual([raw.status, raw.json.detail[0].loc], [422, ['query', 'expires_at']])
    assert.equal((await api.store.counts()).messages, 0)
  })

  test('that comes too late is taken all the same: what becomes of it is to be seen', async () => {
    const api = await apiWith()
    await api.ask('POST', '/app/acme/endpoint', { url })
    const { status } = await publish(api, { expiresAt: '2020-01-01T00:00:00Z', deliverAt: '2020-02-01T00:00:00Z' })
    assert.equal(status, 202)
    assert.equal((await api.store.counts()).pending, 1)
  })

  test('for which an endpoint has no room is refused, or dead there, as the endpoint says', async () => {
    const api = await apiWith()
    const drops = { url, uid: 'drops', maxWaiting: 1, overflow: 'drop_new' }
    await api.ask('POST', '/app/acme/endpoint', drops)
    await api.ask('POST', '/app/acme/endpoint', { url, uid: 'refuses', maxWaiting: 2 })
    const disabled = { url, uid: 'disabled', disabled: true, whileDisabled: 'drop' }
    await api.ask('POST', '/app/acme/endpoint', disabled)
    await publish(api, {})
    const { json } = await publish(api, {})
    const refused = await publish(api, {})
    assert.deepEqual([refused.status, refused.json.code], [429, 'overloaded'])
    assert.ok(Number(refused.headers['retry-after']) >= 1)

    const standings = (await api.ask('GET', `/app/acme/msg/${json.id}/endpoint`)).json.data
    const statuses = Object.fromEntries(standings.map((each: Record<string, string>) => [each.uid, each.statusText]))
    assert.deepEqual(statuses, { drops: 'fail', refuses: 'pending', disabled: 'fail' })
    for (const [uid, reason] of [
      ['drops', 'overflow'],
      ['disabled', 'disabled'],
    ]) {
      const { json: letter } = await api.ask('GET', `/app/acme/dead/${json.id}/${uid}`)
      const { reason: why, code, error, response, responseStatusCode, attempts, trail } = letter
      assert.deepEqual(
        { why, code, error, response, responseStatusCode, attempts, trail },
        { why: reason, code: 'untried', error: null, response: null, responseStatusCode: 0, attempts: 0, trail: [] },
      )
      const { json: why2 } = await api.ask('GET', `/app/acme/msg/${json.id}/endpoint/${uid}/why`)
      assert.equal(why2.reason, 'dead')
      assert.match(why2.detail, new RegExp(reason as string))
    }
    const { json: list } = await api.ask('GET', '/app/acme/dead?reason=overflow')
    assert.deepEqual(
      list.data.map((letter: Record<string, string>) => letter.msgId),
      [json.id],
    )
  })
})
