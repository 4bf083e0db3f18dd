import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { request } from 'undici'
import { shortLived, sources } from '../prepared.ts'
import { serveAcmeBy } from './acme.ts'
import { Client } from './client.ts'
import { type CollectedSpan, Collector } from './collector.ts'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { apiKey, leaseMs, Program } from './program.ts'
import { Receiver } from './receiver.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const traceparent = `00-${traceId}-b7ad6b7169203331-01`
const quickly = { OTEL_BSP_SCHEDULE_DELAY: '50' }

/** Starts the program after some code that follows its modules. */
const after = (code: string) => ({
  nodeArguments: [...shortLived, '--import', `data:text/javascript,${encodeURIComponent(code)}`],
})
const hooks = "import { registerHooks } from 'node:module'; "
// A bundle names the modules in it. The package `api` has only types and empty functions; prom-client loads it.
const reporting = after(
  `${hooks}registerHooks({ load(url, context, next) {
    const loaded = next(url, context)
    const names = [url, ...(String(loaded.source).match(/^\\/\\/#region .*/gm) ?? [])]
    for (const name of names) {
      if (/opentelemetry/.test(name) && !name.includes('@opentelemetry/api/')) process._rawDebug('loaded ' + name)
    }
    return loaded
  } })`,
)

/** A process of its own: OpenTelemetry is set up once in a process. */
const serveAcme = (t: TestContext, dialect: 'sqlite' | 'postgres', env: Record<string, string>) =>
  serveAcmeBy(Program.start, t, dialect, env)

async function publish(
  { api }: Pick<Program, 'api'>,
  headers: Record<string, string> = {},
  fields: object = {},
): Promise<string> {
  const reply = await request(`${api}/app/acme/msg`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ eventType: 'video.trending', payload: { secret: 'a-very-secret-value' }, ...fields }),
  })
  const answer = (await reply.body.json()) as { id: string }
  assert.equal(reply.statusCode, 202, JSON.stringify(answer))
  return answer.id
}

function only(spans: readonly CollectedSpan[]): CollectedSpan {
  assert.equal(spans.length, 1, JSON.stringify(spans))
  return spans[0] as CollectedSpan
}

function assertWithin(inner: CollectedSpan, outer: CollectedSpan): void {
  assert.ok(inner.startedAt <= inner.endedAt, inner.name)
  assert.ok(inner.startedAt >= outer.startedAt - 1 && inner.endedAt <= outer.endedAt + 1, `${inner.name} is within`)
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`a process accepts, another delivers, and both belong to the trace of the producer (${dialect})`, async (t) => {
    const place = await openPlace(t, dialect)
    const collector = await Collector.listen(t)
    const receiver = await Receiver.listen(t)
    // The delay of batches is longer than the processes live: the spans come because a stop exports them.
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=acme',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test%20place',
      OTEL_BSP_SCHEDULE_DELAY: '600000',
      // On a busy machine a worker that loses its lane makes the attempt twice.
      SLUICE_LEASE: '60s',
    }
    const first = await Program.start(t, 'serve', place.store, { ...env, OTEL_SERVICE_NAME: 'accepting' }, reporting)
    // So `reporting` names what is loaded, and no name means that nothing is.
    assert.match(first.logged, /loaded .*@opentelemetry\/sdk-trace\//)
    const client = new Client(first.api)
    await client.createApplication('acme')
    const url = `${receiver.url}/hook/a-very-secret-value?key=a-very-secret-value`
    const endpoint = await client.createEndpoint('acme', { url, propagateTrace: true })
    await client.pauseEndpoint('acme', endpoint.id)
    const id = await publish(first, { traceparent, tracestate: 'rojo=1' })
    await client.close()
    first.terminate()
    assert.equal((await first.exited).code, 0)

    const accept = only(collector.spans)
    assert.deepEqual(
      [accept.name, accept.traceId, accept.parentSpanId, accept.traceState, accept.kind, accept.status],
      ['accept', traceId, 'b7ad6b7169203331', 'rojo=1', 4, 0],
    )
    assert.equal(accept.attributes['messaging.message.id'], id)
    assert.equal(accept.attributes['sluice.event_type'], 'video.trending')
    assert.equal(accept.resource['service.name'], 'accepting')
    assert.equal(accept.resource['deployment.environment'], 'test place')
    const [sent] = collector.requests
    assert.deepEqual([sent?.path, sent?.headers['x-tenant']], ['/v1/traces', 'acme'])

    const startedAt = Date.now()
    const second = await Program.start(t, 'serve', place.store, { ...env, OTEL_SERVICE_NAME: 'delivering' })
    const other = new Client(second.api)
    await other.resumeEndpoint('acme', endpoint.id)
    await receiver.until('it', () => receiver.arrivals.length === 1)
    await eventually('it is recorded', async () => (await other.attempts('acme', id)).length === 1)
    await other.close()
    second.terminate()
    assert.equal((await second.exited).code, 0)

    const wait = only(collector.named('wait'))
    const attempt = only(collector.named('attempt'))
    for (const span of [wait, attempt]) {
      assert.deepEqual([span.traceId, span.parentSpanId], [traceId, accept.spanId], span.name)
      assert.equal(span.resource['service.name'], 'delivering')
      assert.equal(span.attributes['messaging.message.id'], id)
      assert.equal(span.attributes['sluice.endpoint.id'], endpoint.id)
    }
    // The wait began before the process that knows of it.
    assert.ok(wait.startedAt > accept.startedAt - 1000 && wait.startedAt < startedAt, String(wait.startedAt))
    assert.ok(Math.abs(wait.endedAt - attempt.startedAt) < 2)
    assert.deepEqual([attempt.kind, attempt.status], [3, 0])
    const { attributes } = attempt
    assert.deepEqual(
      [attributes['http.request.method'], attributes['http.response.status_code'], attributes['sluice.outcome']],
      ['POST', 200, 'delivered'],
    )
    assert.deepEqual(
      [attributes['server.address'], attributes['server.port']],
      ['127.0.0.1', Number(new URL(url).port)],
    )
    assert.deepEqual([attributes['sluice.attempt.number'], attributes['sluice.connection.reused']], [1, false])
    const parts = collector.spans.filter(({ parentSpanId }) => parentSpanId === attempt.spanId)
    assert.deepEqual(
      parts.map(({ name }) => name),
      ['connect', 'first byte'],
    )
    for (const part of parts) assertWithin(part, attempt)
    const [arrival] = receiver.arrivals
    assert.equal(arrival?.headers.traceparent, `00-${traceId}-${attempt.spanId}-01`)
    assert.equal(arrival?.headers.tracestate, 'rojo=1')
    assert.ok(!JSON.stringify(collector.spans).includes('a-very-secret-value'), 'no payload, path or query is exported')
  })

  test(`each attempt has a span, a failed one with its error, and a publish without a trace begins one (${dialect})`, async (t) => {
    const collector = await Collector.listen(t)
    const env = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/own/path`, ...quickly }
    const { server, client, receiver, place } = await serveAcme(t, dialect, env)
    let answers = 0
    receiver.behave('/', () => ({ status: ++answers === 1 ? 503 : 200 }))
    const retry = { waits: { kind: 'list', ms: [50] }, jitter: 'none' }
    await client.createEndpoint('acme', { url: `${receiver.url.replace('127.0.0.1', 'localhost')}/`, retry })
    await publish(server)
    await eventually('both attempts', () => collector.named('attempt').length === 2)
    const accept = only(collector.named('accept'))
    assert.equal(accept.parentSpanId, '')
    const [failed, delivered] = collector.named('attempt')
    const partsOf = (span: CollectedSpan | undefined) =>
      collector.spans.filter(({ parentSpanId }) => parentSpanId === span?.spanId).map(({ name }) => name)
    assert.deepEqual([partsOf(failed), partsOf(delivered)], [['dns', 'connect', 'first byte'], ['first byte']])
    assert.deepEqual([failed?.status, failed?.attributes['error.type']], [2, '503'])
    assert.equal(failed?.attributes['sluice.delivery.state'], 'waiting')
    assert.equal(delivered?.attributes['http.request.resend_count'], 1)
    for (const span of [failed, delivered]) assert.equal(span?.parentSpanId, accept.spanId)
    const [row] = await place.query('select trace from message')
    assert.equal(row?.trace, `00-${accept.traceId}-${accept.spanId}-01`)
    assert.equal(collector.requests[0]?.path, '/own/path')
    assert.equal(receiver.arrivals[0]?.headers.traceparent, undefined, 'receivers get it only if they ask')

    // A refused publish is a span with its error, and leaves nothing behind.
    const reply = await request(`${server.api}/app/nobody/msg`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: '{"eventType":"a","payload":{}}',
    })
    assert.equal(reply.statusCode, 404)
    await reply.body.dump()
    await eventually('its span', () => collector.named('accept').length === 2)
    assert.equal(collector.named('accept')[1]?.attributes['error.type'], 'not_found')
  })
}

test('batches, runs of schedules and examples for one endpoint are traced, too', async (t) => {
  const collector = await Collector.listen(t)
  const { server, client, receiver } = await serveAcme(t, 'sqlite', {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    ...quickly,
  })
  const endpoint = await client.createEndpoint('acme', { url: `${receiver.url}/` })
  const post = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    const reply = await request(`${server.api}/app/acme${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    assert.ok(reply.statusCode < 300, await reply.body.text())
  }
  const event = { eventType: 'a', payload: {} }
  await post('/msg/batch', { messages: [event, event] })
  await eventually('both attempts', () => collector.named('attempt').length === 2)
  const batch = only(collector.named('accept'))
  assert.equal(batch.attributes['messaging.batch.message_count'], 2)
  await post('/schedule', { uid: 's', cron: '0 0 1 1 *', ...event })
  await post('/schedule/s/run', {})
  await eventually('its attempt', () => collector.named('attempt').length === 3)
  await post(`/endpoint/${endpoint.id}/send-example`, { eventType: 'a' })
  await eventually('its attempt', () => collector.named('attempt').length === 4)
  const [, ofSchedule, ofExample] = collector.named('accept')
  assert.deepEqual(
    collector.named('attempt').map(({ parentSpanId }) => parentSpanId),
    [batch.spanId, batch.spanId, ofSchedule?.spanId, ofExample?.spanId],
  )
  assert.equal(new Set(collector.spans.map((span) => span.traceId)).size, 3)
})

test('a sampler decides for publishes without a trace, and the trace of a producer has its own decision', async (t) => {
  const collector = await Collector.listen(t)
  const sampler = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' }
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...sampler, ...quickly }
  const { server, client, receiver, place } = await serveAcme(t, 'sqlite', env)
  await client.createEndpoint('acme', { url: `${receiver.url}/`, propagateTrace: true })
  await publish(server)
  const unsampled = `00-${'1'.repeat(32)}-b7ad6b7169203331-00`
  await publish(server, { traceparent: unsampled })
  await publish(server, { traceparent })
  await eventually('its attempt', () => collector.named('attempt').length === 1)
  assert.deepEqual(new Set(collector.spans.map((span) => span.traceId)), new Set([traceId]))
  const accept = only(collector.named('accept'))
  const rows = await place.query('select trace from message order by key')
  assert.deepEqual(
    rows.map(({ trace }) => trace),
    [null, unsampled, `00-${traceId}-${accept.spanId}-01`],
  )
  const attempt = only(collector.named('attempt'))
  assert.deepEqual(receiver.arrivals.map(({ headers }) => headers.traceparent ?? 'none').sort(), [
    `00-${traceId}-${attempt.spanId}-01`,
    unsampled,
    'none',
  ])
})

test('a collector that never answers slows no delivery, and a bounded number of spans waits for it', async (t) => {
  const collector = await Collector.listen(t)
  const opened = Promise.withResolvers<void>()
  collector.answering = opened.promise
  const patience = { OTEL_EXPORTER_OTLP_TIMEOUT: '600000', OTEL_BSP_EXPORT_TIMEOUT: '600000' }
  const limits = { ...patience, OTEL_BSP_MAX_QUEUE_SIZE: '40', OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '20', ...quickly }
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...limits }
  const { server, client, receiver } = await serveAcme(t, 'sqlite', env)
  await client.createEndpoint('acme', { url: `${receiver.url}/` })
  const published = 100
  await Promise.all(Array.from({ length: published }, () => publish(server)))
  await eventually('all deliveries', () => receiver.arrivals.length === published)
  assert.equal(collector.requests.length, 1, 'one batch is under way')
  opened.resolve()
  await eventually('the waiting spans', () => collector.spans.length > 40)
  const id = await publish(server)
  await eventually('the next', () => collector.spans.some((span) => span.attributes['messaging.message.id'] === id))
  // Of at least 300 spans, a batch under way, the queue and those of the last publish were kept.
  assert.ok(collector.spans.length <= 20 + 40 + 10, `${collector.spans.length} spans`)
  assert.match(server.logged, /traces: Dropped \d+ spans because maxQueueSize reached/)

  const never = Promise.withResolvers<void>()
  collector.answering = never.promise
  await publish(server)
  const before = performance.now()
  server.terminate()
  assert.equal((await server.exited).code, 0)
  assert.ok(performance.now() - before < 60_000, 'a stop waits for the collector only for a while')
  never.resolve()
})

test('drain exports the spans of its attempts, and ends although the collector never answers', async (t) => {
  const { server, client, receiver, place } = await serveAcme(t, 'sqlite', { SLUICE_LEASE: `${leaseMs}ms` })
  await client.createEndpoint('acme', { url: `${receiver.url}/` })
  const at = Date.now() + 2000
  await publish(server, { traceparent }, { deliverAt: new Date(at).toISOString() })
  await server.kill()
  await eventually('it is due, and the lease is over', () => Date.now() > at + leaseMs)
  const collector = await Collector.listen(t)
  collector.answering = new Promise(() => {})
  const drain = await Program.run(t, 'drain', place.store, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })
  assert.equal(drain.exit.code, 0, drain.logged)
  assert.match(drain.printed, /Drained: 1 delivered/)
  assert.deepEqual(collector.spans.map(({ name }) => name).sort(), ['attempt', 'connect', 'first byte', 'wait'])
})

test('a collector that is gone is logged once, and again when it is back', async (t) => {
  const probe = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => probe.once('listening', resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  // The exporter tries again within its limit; that is short here.
  const limits = { OTEL_EXPORTER_OTLP_TIMEOUT: '200', ...quickly }
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, ...limits }
  const { server, client, receiver } = await serveAcme(t, 'sqlite', env)
  await client.createEndpoint('acme', { url: `${receiver.url}/` })
  await publish(server)
  await eventually('a line', () => /traces could not be exported, \d+ spans lost so far/.test(server.logged))
  for (let i = 0; i < 5; i++) await publish(server)
  await receiver.until('all', () => receiver.arrivals.length === 6)
  const back = createServer((incoming, response) => incoming.resume().on('end', () => response.end()))
  back.listen(port, '127.0.0.1')
  t.after(() => {
    back.close()
    back.closeAllConnections()
  })
  await eventually('a line', async () => {
    await publish(server)
    return /traces are exported again after .*; \d+ spans were lost/.test(server.logged)
  })
  assert.equal(server.logged.match(/could not be exported/g)?.length, 1)
})

// test/runtime/trace-settings.test.ts has the variables that ask for no traces.
test('OpenTelemetry is not loaded when the variables ask for no traces', async (t) => {
  const place = await openPlace(t, 'sqlite')
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318', OTEL_SDK_DISABLED: 'true' }
  const server = await Program.start(t, 'serve', place.store, env, reporting)
  const receiver = await Receiver.listen(t)
  const client = new Client(server.api)
  await client.createApplication('acme')
  await client.createEndpoint('acme', { url: `${receiver.url}/` })
  await publish(server, { traceparent })
  await receiver.until('it', () => receiver.arrivals.length === 1)
  await client.close()
  assert.ok(!server.logged.includes('loaded'), server.logged)
})

test('without its packages, the server says how to install them and delivers', async (t) => {
  const place = await openPlace(t, 'sqlite')
  const missing = after(
    `${hooks}registerHooks({ resolve(name, context, next) {
      if (!name.startsWith('@opentelemetry/') || context.parentURL.includes('prom-client')) return next(name, context)
      throw Object.assign(new Error('Cannot find package ' + name), { code: 'ERR_MODULE_NOT_FOUND' })
    } })`,
  )
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }
  const server = await Program.start(t, 'serve', place.store, env, { ...missing, program: sources })
  assert.match(
    server.logged,
    /traces are off: the packages of OpenTelemetry are not installed. Run `npm install @opentel/,
  )
  const receiver = await Receiver.listen(t)
  const client = new Client(server.api)
  await client.createApplication('acme')
  await client.createEndpoint('acme', { url: `${receiver.url}/` })
  await publish(server)
  await receiver.until('it', () => receiver.arrivals.length === 1)
  await client.close()
})
