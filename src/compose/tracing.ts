import type { Context, DiagLogger, HrTime, Span, SpanContext, Tracer } from '@opentelemetry/api'
import type { BatchSpanProcessorOptions, Sampler } from '@opentelemetry/sdk-trace'
import { AppError } from '../domain/app-error.ts'
import type { Clock, EpochMs } from '../domain/clock.ts'
import { span as spanText } from '../domain/phrases.ts'
import { type TraceContext, traceHeadersOf, writeTraceContext } from '../domain/trace-context.ts'
import type { AttemptWatch, StartedAttempt, WatchedEnd } from '../engine/attempt-watch.ts'
import type { Item } from '../intake/publication.ts'
import type { PublishSpan, PublishTracer } from '../intake/publisher.ts'
import type { Logger } from '../runtime/log.ts'
import type { TraceSettings } from '../runtime/trace-settings.ts'
import { version } from '../runtime/version.ts'

/** Traces that are exported to a collector over OTLP. */
export interface Tracing extends PublishTracer, AttemptTracing {
  /** Exports the spans that wait, within `flushMs`, and stops. Never rejects. */
  close(): Promise<void>
}

interface AttemptTracing {
  readonly attempts: AttemptWatch
}

/** Time for the last spans at a stop. It is within the time that `sluice drain --for` leaves for handing lanes back. */
const flushMs = 1000
/** A collector that fails, and the SDK that drops spans, are logged this often. */
const repeatMs = 60_000

const packages =
  '@opentelemetry/api @opentelemetry/resources @opentelemetry/sdk-trace @opentelemetry/exporter-trace-otlp-proto'

type Api = typeof import('@opentelemetry/api')
type Sdk = typeof import('@opentelemetry/sdk-trace')

/**
 * Loads OpenTelemetry and starts to export. Where the packages were removed, an error is logged with the remedy, and
 * deliveries go on without traces. The exporter itself reads the variables of the collector (address, headers, certificates,
 * timeout); a batch waits in a bounded queue and is sent in the background, so that no collector slows a delivery.
 */
export async function openTracing(
  settings: TraceSettings,
  log: Pick<Logger, 'error' | 'warn' | 'info'>,
  clock: Clock,
): Promise<Tracing | undefined> {
  const loaded = await load(log, clock)
  if (loaded === undefined) return undefined
  const { api, sdk, resources, exporter } = loaded
  const { queueSize, size, delayMs, timeoutMs } = settings.batch
  const processor = new sdk.BatchSpanProcessor({
    exporter: reporting(exporter, log, clock),
    maxQueueSize: queueSize,
    maxExportBatchSize: size,
    scheduledDelayMillis: delayMs,
    exportTimeoutMillis: timeoutMs,
  })
  const provider = new sdk.TracerProvider({
    sampler: samplerOf(sdk, settings),
    resource: resources
      .defaultResource()
      .merge(resources.resourceFromAttributes({ 'service.version': version, ...settings.resource })),
    spanProcessors: [processor],
    spanLimits: { attributeValueLengthLimit: 512 },
  })
  const spans = new Spans(api, provider.getTracer('sluice', version), clock)
  return {
    begin: (items) => beginPublish(spans, items),
    attempts: { begin: (started) => beginAttempt(spans, started) },
    async close() {
      let cancel = () => {}
      const late = new Promise<void>((resolve) => {
        cancel = clock.after(flushMs, resolve)
      })
      // A failed export was logged by the exporter.
      await Promise.race([provider.shutdown().catch(() => {}), late])
      cancel()
      api.diag.disable()
    },
  }
}

async function load(log: Pick<Logger, 'error' | 'warn'>, clock: Clock) {
  try {
    const [api, sdk, resources, { OTLPTraceExporter }] = await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/exporter-trace-otlp-proto'),
    ])
    // Before the exporter, which says there what it cannot read.
    api.diag.setLogger(warnings(log, clock), api.DiagLogLevel.WARN)
    return { api, sdk, resources, exporter: new OTLPTraceExporter() }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error
    const remedy = `Run \`npm install ${packages}\`, or set OTEL_SDK_DISABLED=true.`
    log.error(`traces are off: the packages of OpenTelemetry are not installed. ${remedy}`)
    return undefined
  }
}

/** Logs warnings of the SDK, such as spans that it dropped. Failed exports are logged by `reporting`. */
function warnings(log: Pick<Logger, 'warn'>, clock: Clock): DiagLogger {
  let saidAt = Number.NEGATIVE_INFINITY
  const ignore = () => {}
  const warn = (sentence: string) => {
    if (clock.steady() - saidAt < repeatMs) return
    saidAt = clock.steady()
    log.warn(`traces: ${sentence.slice(0, 300)}`)
  }
  return { error: ignore, warn, info: ignore, debug: ignore, verbose: ignore }
}

function samplerOf(sdk: Sdk, { sampler, ratio }: TraceSettings): Sampler {
  const plain = sampler.replace('parentbased_', '')
  const root =
    plain === 'always_off'
      ? new sdk.AlwaysOffSampler()
      : plain === 'always_on'
        ? new sdk.AlwaysOnSampler()
        : new sdk.TraceIdRatioBasedSampler(ratio)
  return plain === sampler ? root : new sdk.ParentBasedSampler({ root })
}

type Exporter = BatchSpanProcessorOptions['exporter']

/** Logs that a collector does not take spans, at once and then every minute, and that it does again. */
function reporting(exporter: Exporter, log: Pick<Logger, 'warn' | 'info'>, clock: Clock): Exporter {
  let lost = 0
  let failingSince: number | undefined
  let saidAt = Number.NEGATIVE_INFINITY
  const note = (count: number, error: Error | undefined) => {
    const now = clock.steady()
    if (error === undefined) {
      if (failingSince === undefined) return
      log.info(`traces are exported again after ${spanText(now - failingSince)}; ${lost} spans were lost`)
      failingSince = undefined
      lost = 0
      saidAt = Number.NEGATIVE_INFINITY
      return
    }
    lost += count
    failingSince ??= now
    if (now - saidAt < repeatMs) return
    saidAt = now
    log.warn(`traces could not be exported, ${lost} spans lost so far: ${error.message.slice(0, 300)}`)
  }
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        note(spans.length, result.code === 0 ? undefined : (result.error ?? new Error('the collector refused them')))
        done(result)
      }),
    shutdown: () => exporter.shutdown(),
  }
}

/** Makes spans with given instants, in contexts that come from a header or a store. */
class Spans {
  readonly api: Api
  readonly clock: Clock
  readonly #tracer: Tracer

  constructor(api: Api, tracer: Tracer, clock: Clock) {
    this.api = api
    this.#tracer = tracer
    this.clock = clock
  }

  start(name: string, at: EpochMs, parent: Context, kind: number, attributes: Attributes): Span {
    return this.#tracer.startSpan(name, { kind, startTime: hrTime(at), attributes }, parent)
  }

  /** A part of another span that is over already. */
  part(name: string, at: EpochMs, ms: number, parent: Context, attributes: Attributes = {}): void {
    this.start(name, at, parent, this.api.SpanKind.INTERNAL, attributes).end(hrTime(at + ms))
  }

  /** The context that a span of another process made. */
  remote(trace: TraceContext | null): Context {
    const { api } = this
    if (trace === null) return api.ROOT_CONTEXT
    const { traceparent, tracestate } = traceHeadersOf(trace)
    const [, traceId = '', spanId = '', flags = '00'] = traceparent.split('-')
    const traceFlags = Number.parseInt(flags, 16) & api.TraceFlags.SAMPLED
    const state = tracestate === null ? {} : { traceState: api.createTraceState(tracestate) }
    return api.trace.setSpanContext(api.ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true, ...state })
  }

  within(span: Span): Context {
    return this.api.trace.setSpan(this.api.ROOT_CONTEXT, span)
  }

  fail(span: Span, type: string): void {
    span.setAttribute('error.type', type)
    span.setStatus({ code: this.api.SpanStatusCode.ERROR, message: type })
  }
}

type Attributes = Readonly<Record<string, string | number | boolean>>

/** Not a number: the SDK takes a small one for an instant of the process's own clock. */
function hrTime(at: EpochMs): HrTime {
  const seconds = Math.floor(at / 1000)
  return [seconds, Math.min(999_999_999, Math.round((at - seconds * 1000) * 1e6))]
}

function traceOf({ traceId, spanId, traceFlags, traceState }: SpanContext): TraceContext {
  const traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
  return writeTraceContext({ traceparent, tracestate: traceState?.serialize() || null })
}

function beginPublish(spans: Spans, items: readonly Item[]): PublishSpan {
  const { clock, api } = spans
  const [first] = items
  const given = first?.envelope.trace ?? null
  const [at, begunAt] = [clock.now(), clock.steady()]
  const span = spans.start('accept', at, spans.remote(given), api.SpanKind.PRODUCER, {
    'messaging.system': 'sluice',
    'messaging.operation.name': 'accept',
    'sluice.event_type': first?.envelope.eventType ?? '',
    'messaging.message.body.size': items.reduce((sum, { body }) => sum + body.byteLength, 0),
    ...(items.length > 1 && { 'messaging.batch.message_count': items.length }),
  })
  // Without a span of its own, this publish only passes on the context that it was given.
  if (!span.isRecording()) return { trace: given, end() {} }
  return {
    trace: traceOf(span.spanContext()),
    end(answer, error) {
      const { id, state } = (answer ?? {}) as { readonly id?: unknown; readonly state?: unknown }
      if (typeof id === 'string') span.setAttribute('messaging.message.id', id)
      if (typeof state === 'string') span.setAttribute('sluice.publish.state', state)
      if (error !== undefined) spans.fail(span, error instanceof AppError ? error.code : 'internal')
      span.end(hrTime(at + clock.steady() - begunAt))
    },
  }
}

function beginAttempt(spans: Spans, { endpoint, message, number, waitMs }: StartedAttempt) {
  if (message.trace === null) return undefined
  const { clock, api } = spans
  const parent = spans.remote(message.trace)
  const [at, begunAt] = [clock.now(), clock.steady()]
  const delivery = {
    'sluice.application.id': endpoint.appId ?? '',
    'sluice.endpoint.id': endpoint.id,
    'messaging.message.id': message.id,
    'sluice.event_type': message.eventType,
    'sluice.attempt.number': number,
  }
  const span = spans.start('attempt', at, parent, api.SpanKind.CLIENT, {
    ...delivery,
    'messaging.system': 'sluice',
    'messaging.operation.name': 'attempt',
    'http.request.method': endpoint.method,
    'http.request.body.size': message.bytes,
    'network.protocol.version': '1.1',
    ...serverOf(endpoint.url),
    ...(number > 1 && { 'http.request.resend_count': number - 1 }),
  })
  if (!span.isRecording()) return undefined
  if (waitMs !== null) spans.part('wait', at - waitMs, waitMs, parent, delivery)
  return {
    trace: traceOf(span.spanContext()),
    end(ended: WatchedEnd) {
      addParts(spans, span, at, ended)
      describeAttempt(spans, span, ended)
      span.end(hrTime(at + clock.steady() - begunAt))
    },
  }
}

/** The host and the port alone: paths and queries of webhook URLs often are secrets. */
function serverOf(url: string): Attributes {
  if (!URL.canParse(url)) return {}
  const { hostname, port, protocol } = new URL(url)
  const isSecure = protocol === 'https:'
  const shared = { 'server.address': hostname, 'url.scheme': isSecure ? 'https' : 'http' }
  return { ...shared, 'server.port': port === '' ? (isSecure ? 443 : 80) : Number(port) }
}

/** The parts of an attempt follow each other. */
function addParts(spans: Spans, span: Span, at: EpochMs, { outcome: { timings } }: WatchedEnd): void {
  if (timings === undefined) return
  const { beforeMs = 0, dnsMs, connectMs, tlsMs, firstByteMs } = timings
  const parts = { dns: dnsMs, connect: connectMs, tls: tlsMs, 'first byte': firstByteMs }
  const parent = spans.within(span)
  let from = at + beforeMs
  for (const [name, ms] of Object.entries(parts)) {
    if (ms === null) continue
    spans.part(name, from, ms, parent)
    from += ms
  }
}

function describeAttempt(spans: Spans, span: Span, { id, outcome, verdict }: WatchedEnd): void {
  const { code, status, timings, response } = outcome
  span.setAttribute('sluice.outcome', code)
  if (id !== null) span.setAttribute('sluice.attempt.id', id)
  if (status > 0) span.setAttribute('http.response.status_code', status)
  if (response !== undefined) span.setAttribute('http.response.body.size', response.byteLength)
  if (timings !== undefined) span.setAttribute('sluice.connection.reused', timings.reused)
  if (verdict !== null) span.setAttribute('sluice.delivery.state', verdict.state)
  if (verdict !== null && 'waitMs' in verdict) span.setAttribute('sluice.retry_in_ms', Math.ceil(verdict.waitMs))
  if (code !== 'delivered') spans.fail(span, status > 0 ? String(status) : code)
}
