/** The settings of exported traces. They come from the standard variables of OpenTelemetry and have no flags. */
export interface TraceSettings {
  readonly sampler: TraceSampler
  /** The part of the traces that a ratio sampler keeps, from 0 to 1. */
  readonly ratio: number
  /** The attributes of this process, `service.name` among them. */
  readonly resource: Readonly<Record<string, string>>
  readonly batch: TraceBatch
}

/** The limits of the spans that wait to be exported. */
interface TraceBatch {
  /** Spans that wait at most; further ones are dropped. */
  readonly queueSize: number
  readonly size: number
  readonly delayMs: number
  /** An export that takes longer is given up. */
  readonly timeoutMs: number
}

const traceSamplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const
type TraceSampler = (typeof traceSamplers)[number]

type Environment = Readonly<Record<string, string | undefined>>

/** The variables that say where traces go: without one of them, nothing is exported. */
const places = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'] as const
const protocols = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'] as const

/**
 * Reads the variables. Null when they ask for no traces. `problems` are sentences for the log: wrong telemetry must not
 * keep a server from delivering, so a wrong value falls back, or turns traces off.
 */
export function readTraceSettings(env: Environment): { settings: TraceSettings | null; problems: readonly string[] } {
  const off = { settings: null, problems: [] }
  const value = (name: string) => env[name]?.trim() || undefined
  if (value('OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return off
  const exporter = value('OTEL_TRACES_EXPORTER')
  const place = places.find((name) => value(name) !== undefined)
  if (exporter === 'none' || (exporter === undefined && place === undefined)) return off
  if (exporter !== undefined && exporter !== 'otlp') {
    return refused(`OTEL_TRACES_EXPORTER is ${exporter}; set it to otlp, or to none`)
  }
  const protocol = protocols.find((name) => value(name) !== undefined)
  if (protocol !== undefined && value(protocol) !== 'http/protobuf') {
    return refused(
      `${protocol} is ${value(protocol)}; set it to http/protobuf, which collectors take on port 4318, or unset it`,
    )
  }
  if (place !== undefined && !URL.canParse(value(place) ?? '')) {
    return refused(`${place} is not a URL; set it to one such as http://127.0.0.1:4318`)
  }
  const problems: string[] = []
  const settings = {
    ...samplerOf(value('OTEL_TRACES_SAMPLER'), value('OTEL_TRACES_SAMPLER_ARG'), problems),
    resource: resourceOf(value('OTEL_RESOURCE_ATTRIBUTES'), value('OTEL_SERVICE_NAME'), problems),
    batch: batchOf(value, problems),
  }
  return { settings, problems }
}

function refused(why: string) {
  return { settings: null, problems: [`traces are off: ${why}`] }
}

function samplerOf(name: string | undefined, argument: string | undefined, problems: string[]) {
  const sampler = traceSamplers.find((each) => each === name)
  if (name !== undefined && sampler === undefined) {
    const known = traceSamplers.join(', ')
    problems.push(`OTEL_TRACES_SAMPLER is ${name}, and parentbased_always_on is used; it must be one of ${known}`)
  }
  const isRatio = sampler?.endsWith('traceidratio') === true
  const ratio = argument === undefined || !isRatio ? 1 : Number(argument)
  const isValid = ratio >= 0 && ratio <= 1
  if (!isValid) problems.push(`OTEL_TRACES_SAMPLER_ARG is ${argument}, and 1 is used; it must be from 0 to 1`)
  return { sampler: sampler ?? ('parentbased_always_on' as const), ratio: isValid ? ratio : 1 }
}

/** `key1=value1,key2=value2`, with percent-encoded values. The specification drops all of them when one is wrong. */
function resourceOf(list: string | undefined, name: string | undefined, problems: string[]): Record<string, string> {
  const given: Record<string, string> = {}
  try {
    for (const pair of (list ?? '').split(',').filter((each) => each.trim() !== '')) {
      const at = pair.indexOf('=')
      const key = pair.slice(0, at).trim()
      if (at < 1 || key === '') throw new URIError('no key')
      given[key] = decodeURIComponent(pair.slice(at + 1).trim())
    }
  } catch {
    problems.push('OTEL_RESOURCE_ATTRIBUTES is ignored; it must be key=value pairs with commas between them')
    return { 'service.name': name ?? 'sluice' }
  }
  return { 'service.name': 'sluice', ...given, ...(name !== undefined && { 'service.name': name }) }
}

const mostSpans = 100_000
/**
 * The specification has batches of 512. One is written in one turn of the event loop, which took 14 to 75 ms on a busy
 * machine, and all deliveries wait for that; a quarter of it costs a quarter.
 */
const batchSize = 128
const largestBatch = 512

function batchOf(value: (name: string) => string | undefined, problems: string[]): TraceBatch {
  const read = (name: string, fallback: number, most: number) => {
    const text = value(name)
    const count = text === undefined ? fallback : Number(text)
    if (Number.isInteger(count) && count >= 1 && count <= most) return count
    problems.push(`${name} is ${text}, and ${fallback} is used; it must be from 1 to ${most}`)
    return fallback
  }
  const queueSize = read('OTEL_BSP_MAX_QUEUE_SIZE', 2048, mostSpans)
  return {
    queueSize,
    size: Math.min(queueSize, read('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', batchSize, largestBatch)),
    delayMs: read('OTEL_BSP_SCHEDULE_DELAY', 5000, 3_600_000),
    timeoutMs: read('OTEL_BSP_EXPORT_TIMEOUT', 30_000, 3_600_000),
  }
}
