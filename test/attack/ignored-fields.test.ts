import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dialects, isLong, reportLine, Target } from './attack.ts'
import { readOperations } from './operations.ts'

const header = 'sluice-ignored-fields'
/** Bodies may have 10,000 keys; batches more. */
const fields = 9900
const rounds = isLong ? 100 : 10

const message = { eventType: 'a', payload: {} }
/** Bodies that are taken, of the operations that ignore unknown fields. */
const producers: Readonly<Record<string, object>> = {
  '/api/v1/app/{app_id}/msg': message,
  '/api/v1/app/{app_id}/msg/batch': { messages: [message] },
  '/api/v1/app/{app_id}/msg/precheck/active': message,
}
const isObject = (value: unknown) => typeof value === 'object' && value !== null

for (const dialect of dialects) {
  test(`${dialect}: a misspelt field makes no right wider`, async (t) => {
    const target = await Target.share(t, dialect)
    const [app, other] = [await target.newApplication(), await target.newApplication()]
    const endpoint = { url: 'https://example.com/' }
    await target.call('POST', `/app/${app}/endpoint`, { body: { ...endpoint, uid: 'main' } })
    const refused: [string, string, object, RegExp][] = [
      [
        'POST',
        '/api-key',
        { name: 'k', scopes: ['read'], application: app },
        /the fields are name, scopes, app, appId/,
      ],
      ['POST', '/api-key', { name: 'k', scopes: ['read'], App: app }, /did you mean app\?/],
      ['POST', '/api-key', { name: 'k', scopes: ['read'], expiry: 60 }, /did you mean expiresInSeconds\?/],
      ['POST', '/api-key', { name: 'k', scopes: ['read'], app, appId: other }, /another application/],
      ['POST', `/auth/app-portal-access/${app}`, { readonly: true }, /did you mean readOnly\?/],
      ['POST', `/auth/app-portal-access/${app}`, { Capabilities: ['ViewBase'] }, /did you mean capabilities\?/],
      ['POST', `/auth/app-portal-access/${app}`, { expiresInSeconds: 60 }, /did you mean expiry\?/],
      ['POST', `/auth/app-portal-access/${app}`, { feature_flags: ['a'] }, /did you mean featureFlags\?/],
      ['POST', `/auth/app/${app}/expire-all`, { sessions: ['a'] }, /did you mean sessionIds\?/],
      ['POST', `/app/${app}/endpoint`, { ...endpoint, rate: 5 }, /did you mean rateLimit\?/],
      ['POST', `/app/${app}/endpoint`, { ...endpoint, channel: ['a'] }, /did you mean channels\?/],
      ['POST', `/app/${app}/endpoint/main/recover`, { since: '2026-01-01T00:00:00Z', before: 'x' }, /unknown field/],
      ['POST', `/app/${app}/endpoint/main/secret/rotate`, { gracePeriod: 0 }, /did you mean gracePeriodSeconds\?/],
      ['POST', `/app/${app}/subject/erase`, { subject: 'a', wait: 'cancel' }, /did you mean waiting\?/],
      ['POST', '/event-type/import/openapi', { spec: {}, dryrun: true }, /did you mean dryRun\?/],
      ['POST', `/app/${app}/msg`, { eventType: 'a', payload: {}, channel: ['a'] }, /did you mean channels\?/],
      ['POST', `/app/${app}/msg`, { eventType: 'a', payload: {}, endpointId: 'main' }, /did you mean endpoint\?/],
      ['POST', `/app/${app}/msg`, { eventType: 'a', payload: {}, deliver_at: 'x' }, /did you mean deliverAt\?/],
      ['POST', `/app/${app}/msg/raw?event_type=a&channel=a`, {}, /did you mean channels\?/],
      ['DELETE', `/app/${app}/dead?endpiont_id=main`, {}, /did you mean endpoint_id\?/],
      ['DELETE', `/app/${app}/endpoint/main?dry_run=true`, {}, /unknown parameter/],
      ['DELETE', '/event-type/a?archive=true', {}, /unknown parameter/],
    ]
    for (const [method, path, body, remedy] of refused) {
      const { status, text } = await target.call(method, path, method === 'DELETE' ? {} : { body })
      assert.equal(status, 422, `${method} ${path} ${JSON.stringify(body)}: ${text}`)
      assert.match(text, remedy)
    }
    // By the name that answers have, the limit counts.
    const limited = await target.call('POST', '/api-key', { body: { name: 'k', scopes: ['read'], appId: app } })
    const { appId, token } = JSON.parse(limited.text)
    assert.equal(appId, JSON.parse((await target.call('GET', `/app/${app}`)).text).id)
    const headers = { authorization: `Bearer ${token}` }
    assert.deepEqual(
      [
        (await target.call('GET', `/app/${app}`, { headers })).status,
        (await target.call('GET', '/app', { headers })).status,
      ],
      [200, 403],
    )
    reportLine(t, { attack: 'misspelt fields', store: dialect, tried: refused.length, refused: refused.length })
  })

  test(`${dialect}: every operation refuses an unknown field, or names it in its answer`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await target.newApplication()
    await target.call('POST', `/app/${app}/endpoint`, { body: { url: 'https://example.com/', uid: 'main' } })
    const operations = readOperations(1).filter(({ takesBody, type, path }) => {
      return takesBody && type === 'application/json' && path.startsWith('/api/v1/') && !path.endsWith('/msg/raw')
    })
    assert.ok(operations.length > 40)
    for (const { method, path, bodies } of operations) {
      const known = producers[path] ?? bodies.map((body) => JSON.parse(body)).find(isObject)
      const body = { ...known, xQuuxCorge: 1 }
      const filled = path
        .replace('{app_id}', app)
        .replace('{endpoint_id}', 'main')
        .replace(/\{\w+\}/g, 'x')
      const { status, headers, text } = await target.call(method, filled.replace('/api/v1', ''), { body })
      const isNamed = /(^|, )body\.xQuuxCorge/.test(String(headers[header]))
      const isRefused = status === 422 && text.includes('xQuuxCorge')
      assert.ok(isNamed || isRefused, `${method} ${filled}: ${status} ${text}`)
    }
  })

  test(`${dialect}: bodies of many unknown fields stop nobody`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await target.newApplication()
    // As long as a known name, so that each is compared, and none is one.
    const unknown = Array.from({ length: fields }, (_, i) => [`orderXYZ${i.toString(36).padStart(5, 'Q')}`, 1])
    const body = { ...message, ...Object.fromEntries(unknown) }
    await target.measure(`${rounds} messages of ${fields} unknown fields`, async () => {
      const sent = Array.from({ length: rounds }, () => target.call('POST', `/app/${app}/msg`, { body }))
      for (const { status, headers, text } of await Promise.all(sent)) {
        assert.equal(status, 202, text)
        const named = String(headers[header])
        assert.match(named, /^body\.orderXYZ\w+(, body\.orderXYZ\w+){9}, \.\.\.$/)
        assert.ok(named.length < 2048)
      }
    })
    await target.measure(`a batch whose 1,000 messages have 30 unknown fields each`, async () => {
      const one = { ...message, ...Object.fromEntries(unknown.slice(0, 30)) }
      const batch = { messages: Array.from({ length: 1000 }, () => one) }
      const { status, text, headers } = await target.call('POST', `/app/${app}/msg/batch`, { body: batch })
      assert.equal(status, 202, text)
      assert.match(String(headers[header]), /^body\.messages\.orderXYZ\w+(, body\.messages\.orderXYZ\w+){9}, \.\.\.$/)
    })
    await target.measure(`${rounds} endpoints of ${fields} unknown fields`, async () => {
      const made = { url: 'https://example.com/', ...Object.fromEntries(unknown) }
      const sent = Array.from({ length: rounds }, () => target.call('POST', `/app/${app}/endpoint`, { body: made }))
      for (const { status } of await Promise.all(sent)) assert.equal(status, 422)
    })
    const strange = { ...message, 'a\r\nset-cookie: b=c': 1, 'ключ,": ': 2, ['x'.repeat(10_000)]: 3 }
    const { status, headers } = await target.call('POST', `/app/${app}/msg`, { body: strange })
    assert.deepEqual([status, headers['set-cookie']], [202, undefined])
    assert.match(String(headers[header]), /^body\.a%0d%0aset-cookie%3a%20b%3dc, body\.[\w%]+, body\.x{64}$/)
  })
}
