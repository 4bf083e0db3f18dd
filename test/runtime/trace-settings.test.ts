import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readTraceSettings } from '../../src/runtime/trace-settings.ts'

const place = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }
const standard = {
  sampler: 'parentbased_always_on',
  ratio: 1,
  resource: { 'service.name': 'sluice' },
  batch: { queueSize: 2048, size: 128, delayMs: 5000, timeoutMs: 30_000 },
}

for (const env of [
  {},
  { OTEL_SERVICE_NAME: 'shop' },
  { OTEL_EXPORTER_OTLP_ENDPOINT: '' },
  { ...place, OTEL_SDK_DISABLED: 'TRUE' },
  { ...place, OTEL_TRACES_EXPORTER: 'none' },
]) {
  test(`${JSON.stringify(env)} asks for no traces`, () => {
    assert.deepEqual(readTraceSettings(env), { settings: null, problems: [] })
  })
}

for (const env of [
  place,
  { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://collector.example/v1/traces' },
  { OTEL_TRACES_EXPORTER: 'otlp' },
  { ...place, OTEL_SDK_DISABLED: 'no', OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' },
  { ...place, OTEL_TRACES_SAMPLER: ' ', OTEL_TRACES_SAMPLER_ARG: '7' },
]) {
  test(`${JSON.stringify(env)} asks for traces as the specification has them by default`, () => {
    assert.deepEqual(readTraceSettings(env), { settings: standard, problems: [] })
  })
}

for (const [env, problem] of [
  [{ OTEL_TRACES_EXPORTER: 'zipkin' }, /OTEL_TRACES_EXPORTER is zipkin; set it to otlp/],
  [{ ...place, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, /OTEL_EXPORTER_OTLP_PROTOCOL is grpc; set it to http\/protobuf/],
  [{ ...place, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json' }, /OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is http\/json/],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector' }, /OTEL_EXPORTER_OTLP_ENDPOINT is not a URL/],
] as const) {
  test(`${JSON.stringify(env)} turns traces off and says how to turn them on`, () => {
    const { settings, problems } = readTraceSettings(env)
    assert.equal(settings, null)
    assert.match(problems.join(), problem)
    assert.match(problems.join(), /^traces are off: /)
  })
}

test('sampler, resource and batches are read', () => {
  const { settings, problems } = readTraceSettings({
    ...place,
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.25',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=other, zone = a%2Cb,team=',
    OTEL_SERVICE_NAME: 'shop',
    OTEL_BSP_MAX_QUEUE_SIZE: '10',
    OTEL_BSP_SCHEDULE_DELAY: '1',
  })
  assert.deepEqual(problems, [])
  assert.deepEqual(settings, {
    sampler: 'traceidratio',
    ratio: 0.25,
    resource: { 'service.name': 'shop', zone: 'a,b', team: '' },
    batch: { queueSize: 10, size: 10, delayMs: 1, timeoutMs: 30_000 },
  })
})

test('wrong values fall back, each with a sentence', () => {
  const { settings, problems } = readTraceSettings({
    ...place,
    OTEL_TRACES_SAMPLER: 'sometimes',
    OTEL_RESOURCE_ATTRIBUTES: 'a=1,b',
    OTEL_BSP_MAX_QUEUE_SIZE: '1e12',
  })
  assert.deepEqual(settings, standard)
  assert.equal(problems.length, 3)
  const ratio = { ...place, OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: 'half' }
  assert.equal(readTraceSettings(ratio).settings?.ratio, 1)
  assert.match(readTraceSettings(ratio).problems.join(), /OTEL_TRACES_SAMPLER_ARG is half/)
})
