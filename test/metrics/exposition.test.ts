import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openParts } from '../../src/compose/parts.ts'
import { measures } from '../../src/metrics/measures.ts'
import { hashApiKey, makeToken } from '../../src/operations/auth.ts'
import { configOf } from '../../src/runtime/config.ts'
import { openLog } from '../../src/runtime/log.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import { eventually } from '../e2e/eventually.ts'

const adminKey = 'sk_of_the_metrics_tests_012345678'

/** A server with metrics on its API and at an address of their own. */
async function open(t: TestContext, settings: Parameters<typeof configOf>[0] = {}) {
  const config = configOf({
    store: 'sqlite::memory:',
    adminKey,
    allowNetworks: '127.0.0.0/8',
    encryptionKey: `${'A'.repeat(43)}=`,
    ...settings,
  })
  const parts = await openParts(config, openLog({ logLevel: 'silent', logFormat: null }))
  const api = await parts.openApi()
  const { port } = await api.listen({ host: '127.0.0.1', port: 0 })
  const metrics = await parts.listenForMetrics({ host: '127.0.0.1', port: 0 })
  const delivering = await parts.startDelivering('test')
  t.after(async () => {
    await metrics.close()
    await api.close()
    await delivering.stop(0)
    await parts.store.close()
  })
  const get = async (url: string, headers: Record<string, string> = {}, method = 'GET') => {
    const reply = await fetch(url, { method, headers })
    return { status: reply.status, type: reply.headers.get('content-type'), text: await reply.text() }
  }
  const onApi = `http://127.0.0.1:${port}/metrics`
  const own = `http://127.0.0.1:${metrics.address.port}`
  return {
    ...parts,
    base: `http://127.0.0.1:${port}/api/v1`,
    own,
    scrape: (headers?: Record<string, string>) => get(`${own}/metrics`, headers),
    get,
    onApi: (key?: string, method = 'GET') =>
      get(onApi, key === undefined ? {} : { authorization: `Bearer ${key}` }, method),
    async key(scopes: string[], app?: number) {
      const key = makeToken('sk', systemRandomText)
      await parts.store.createApiKey({
        name: 'k',
        hash: hashApiKey(key),
        scopes,
        ...(app !== undefined && { app }),
      } as never)
      return key
    },
  }
}

/** The value of one line. */
function valueIn(text: string, line: string): number | undefined {
  const found = text.split('\n').find((each) => each.startsWith(`${line} `))
  return found === undefined ? undefined : Number(found.slice(line.length + 1))
}

test('the metrics of the API need a key with the scope read for the whole server', async (t) => {
  const server = await open(t)
  assert.equal((await server.onApi()).status, 401)
  assert.equal((await server.onApi(await server.key(['publish']))).status, 403)
  const app = await server.store.createApplication({ name: 'a', uid: null, throttleRate: null, metadata: {} })
  assert.equal((await server.onApi(await server.key(['read'], app.key))).status, 403)
  const { status, type, text } = await server.onApi(await server.key(['read']))
  assert.deepEqual([status, type], [200, 'text/plain; version=0.0.4; charset=utf-8'])
  assert.equal(valueIn(text, 'sluice_messages_accepted_total'), 0)
  assert.equal((await server.onApi(adminKey, 'HEAD')).text, '')
  assert.equal((await server.onApi(adminKey, 'POST')).status, 405)
})

test('with metricsPublic the API answers metrics without a key', async (t) => {
  const server = await open(t, { metricsPublic: true })
  assert.equal((await server.onApi()).status, 200)
})

test('an address of their own answers metrics without a key, and nothing else', async (t) => {
  const server = await open(t)
  assert.equal((await server.scrape()).status, 200)
  assert.equal((await server.get(`${server.own}/api/v1/app`)).status, 404)
  assert.equal((await server.get(`${server.own}/metrics`, {}, 'POST')).status, 405)
  assert.equal((await server.get(`${server.own}/metrics?x=1`, {}, 'HEAD')).text, '')
})

test('the Accept header chooses between the text of Prometheus and OpenMetrics', async (t) => {
  const server = await open(t)
  // The header that Prometheus 3 sends.
  const prometheus =
    'application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.2'
  const open1 = await server.scrape({ accept: prometheus })
  assert.match(open1.type ?? '', /^application\/openmetrics-text; version=1.0.0/)
  assert.ok(open1.text.endsWith('# EOF\n'))
  assert.match(open1.text, /^# TYPE sluice_messages_accepted counter\nsluice_messages_accepted_total 0$/m)
  for (const accept of [
    '*/*',
    'text/plain',
    'application/openmetrics-text;q=0, */*',
    'application/openmetrics-text;q=0.1, text/plain',
  ]) {
    assert.match((await server.scrape({ accept })).type ?? '', /^text\/plain/, accept)
  }
})

test('every metric has one HELP and one TYPE, conventional names and only the labels of the table', async (t) => {
  const server = await open(t)
  const { text } = await eventually('the first counts', async () => {
    const scraped = await server.scrape()
    return scraped.text.includes('sluice_lanes{') && scraped.text.includes('sluice_deliveries_waiting{') && scraped
  })
  const byName = new Map(Object.values(measures).map((measure) => [measure.name, measure]))
  assert.equal(byName.size, Object.keys(measures).length, 'names are unique')
  for (const { name, kind } of byName.values()) {
    assert.match(name, /^(sluice|process)_[a-z_]+$/)
    assert.equal(name.endsWith('_total'), kind === 'counter', name)
    if (kind === 'histogram') assert.match(name, /_seconds$/)
  }
  const lines = text.split('\n').filter((line) => line !== '')
  const types = lines.flatMap((line) => /^# TYPE (\S+) (\w+)$/.exec(line)?.slice(1, 2) ?? [])
  assert.equal(new Set(types).size, types.length)
  for (const line of lines.filter((each) => !each.startsWith('#'))) {
    const [, name = '', labels = ''] = /^([a-z_]+)(?:\{(.*)\})? \S+$/.exec(line) ?? (assert.fail(line) as never)
    const measure = byName.get(name) ?? byName.get(name.replace(/_(bucket|sum|count)$/, ''))
    assert.ok(measure, line)
    for (const [, label = '', value = ''] of labels.matchAll(/(\w+)="([^"]*)"/g)) {
      if (label === 'le') continue
      const allowed = (measure.labels as Record<string, readonly string[] | string>)[label]
      assert.ok(allowed !== undefined, `${name} has no label ${label}`)
      if (typeof allowed !== 'string') assert.ok(allowed.includes(value), `${line}: ${value}`)
    }
  }
})

test('refused publishes are counted by the code of the error, once each', async (t) => {
  const server = await open(t)
  const post = (path: string, body: string) =>
    fetch(`${server.base}${path}`, {
      method: 'POST',
      body,
      headers: { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' },
    })
  await server.store.createApplication({ name: 'a', uid: 'a', throttleRate: null, metadata: {} })
  const message = JSON.stringify({ eventType: 'a', eventId: 'one', payload: {} })
  assert.equal((await post('/app/a/msg', message)).status, 202)
  assert.equal((await post('/app/a/msg', message)).status, 409)
  assert.equal((await post('/app/a/msg', '{')).status, 422)
  assert.equal((await post('/app/nobody/msg', message)).status, 404)
  // Not a publish.
  assert.equal((await post('/app', '{')).status, 422)
  await fetch(`${server.base}/app/a/msg`, { method: 'POST', body: message })
  assert.deepEqual(Object.fromEntries(server.meter.refused), {
    conflict: 1,
    invalid_json: 1,
    not_found: 1,
    authentication_failed: 1,
    overloaded: 0,
    unavailable: 0,
  })
  const { text } = await server.scrape()
  // Prometheus sees the first increase of these only if they were 0 before.
  for (const name of [
    'sluice_dead_letters_total{reason="exhausted"}',
    'sluice_attempts_total{outcome="refused",status="5xx"}',
    'sluice_attempts_total{outcome="connect_refused",status="none"}',
    'sluice_publishes_refused_total{reason="overloaded"}',
  ]) {
    assert.equal(valueIn(text, name), 0, name)
  }
  assert.equal(valueIn(text, 'sluice_publishes_refused_total{reason="conflict"}'), 1)
  assert.equal(valueIn(text, 'sluice_messages_accepted_total'), 1)
})

test('only the worst endpoints are named, by uid or id, and none if the setting is 0', async (t) => {
  for (const metricsEndpoints of [2, 0]) {
    const server = await open(t, { metricsEndpoints })
    const { store } = server
    const app = await store.createApplication({ name: 'a', uid: 'acme "1"', throttleRate: null, metadata: {} })
    const { plainEndpoint } = await import('../store/conformance/harness.ts')
    const endpoints = []
    for (const uid of ['few', 'many', null]) {
      endpoints.push(await store.createEndpoint(app.key, { ...plainEndpoint, uid, paused: true }))
    }
    const version = (await store.subscriptions(app.key))?.version ?? 0
    for (const [i, endpoint] of endpoints.entries()) {
      const publication = {
        ...{ app: app.key, version, eventType: 'a', eventId: null, channels: null, body: Buffer.from('{}') },
        ...{ contentType: 'application/json', endpoints: [endpoint.key], delayMs: 0 },
      }
      await store.publish(Array.from({ length: [1, 3, 2][i] as number }, () => publication))
    }
    const lines = await eventually('the count', async () => {
      const { text } = await server.scrape()
      if (valueIn(text, 'sluice_deliveries_waiting{class="fresh"}') !== 6) return undefined
      return text.split('\n').filter((line) => line.startsWith('sluice_endpoint_deliveries_waiting{'))
    })
    const name = (endpoint: string | undefined) =>
      `sluice_endpoint_deliveries_waiting{application="acme \\"1\\"",endpoint="${endpoint}"}`
    assert.deepEqual(lines, metricsEndpoints === 0 ? [] : [`${name('many')} 3`, `${name(endpoints[2]?.id)} 2`])
  }
})
