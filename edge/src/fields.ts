/** The modes of a route. */
export const modes = ['relay', 'coalesce', 'ingress'] as const
export type Mode = (typeof modes)[number]

type Kind =
  | { readonly kind: 'count'; readonly min: number; readonly max: number }
  | { readonly kind: 'choice'; readonly of: readonly string[] }
  | { readonly kind: 'text'; readonly is: RegExp; readonly form: string }
  | { readonly kind: 'toggle' }
  | { readonly kind: 'record' }

/** A field of a route. A field without a fallback is required, unless `optional` says otherwise. */
export interface Field {
  readonly modes: readonly Mode[]
  readonly type: Kind
  readonly fallback?: number | string | boolean | Readonly<Partial<Record<Mode, number>>>
  readonly optional?: true
  readonly help: string
}

const count = (min: number, max: number): Kind => ({ kind: 'count', min, max })
const choice = (...of: readonly string[]): Kind => ({ kind: 'choice', of })
const toggle: Kind = { kind: 'toggle' }
const record: Kind = { kind: 'record' }
const place: Kind = {
  kind: 'text',
  is: /^(\/.{0,255}|[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100})$/,
  form: 'a JSON pointer such as /video/id, or the name of a header',
}
const webAddress: Kind = { kind: 'text', is: /^https?:\/\/\S{1,2000}$/, form: 'a URL that begins with https://' }
const word: Kind = { kind: 'text', is: /^[a-z0-9-]{1,40}$/, form: 'the name of a provider' }

const all = modes
const signed: readonly Mode[] = ['relay', 'coalesce']
const storing: readonly Mode[] = ['coalesce', 'ingress']

const day = 86_400
const mib = 1_048_576

/** A row of SQLite in a Durable Object holds 2 MB, with the headers. */
export const maxStoredBody = 1_900_000

/** All fields of a route. Reading, checking and the table in docs/edge.md follow from it. */
export const fields = {
  mode: { modes: all, type: choice(...modes), help: 'the work of the route' },
  to: { modes: all, type: webAddress, help: 'the only URL that requests are forwarded to' },
  allowHttp: { modes: all, type: toggle, fallback: false, help: 'allows a `to` without TLS; for tests' },
  maxBodyBytes: {
    modes: all,
    type: count(1, 25 * mib),
    fallback: mib,
    help: `longest body; at most ${maxStoredBody} where the edge stores it (coalesce, ingress)`,
  },
  timeoutSeconds: {
    modes: all,
    type: count(1, 25),
    fallback: 12,
    help: 'time for one answer of the target; shorter than the timeout of the sender (15 s in Sluice)',
  },
  profile: {
    modes: signed,
    type: choice('standard', 'stored', 'timestamped', 'github', 'stripe'),
    fallback: 'standard',
    help: "the endpoint's `signature`",
  },
  signatureHeaders: {
    modes: signed,
    type: record,
    optional: true,
    help: "the application's own names of `id`, `timestamp` and `signature`",
  },
  toleranceSeconds: {
    modes: signed,
    type: count(1, day),
    fallback: 300,
    help: 'largest distance of the signed time from now',
  },
  dedupe: {
    modes: ['relay'],
    type: choice('object', 'kv', 'none'),
    fallback: 'object',
    help: 'where delivered ids are remembered: a Durable Object, Workers KV, or nowhere',
  },
  rememberSeconds: {
    modes: ['relay'],
    type: count(60, 30 * day),
    fallback: 3600,
    help: 'how long a delivered id is remembered',
  },
  maxIds: {
    modes: ['relay'],
    type: count(100, 1_000_000),
    fallback: 100_000,
    help: 'ids that one shard remembers; above it the oldest is forgotten',
  },
  type: {
    modes: ['coalesce'],
    type: place,
    optional: true,
    help: 'where the event type is; without it the route has one type',
  },
  key: {
    modes: ['coalesce'],
    type: place,
    help: 'where the key is; a request without a key is forwarded by itself',
  },
  windowSeconds: {
    modes: ['coalesce'],
    type: count(1, 3600),
    fallback: 10,
    help: 'length of a window, from its first request',
  },
  provider: { modes: ['ingress'], type: word, help: 'the provider of the source, as in Sluice' },
  settings: { modes: ['ingress'], type: record, optional: true, help: "the provider's settings, as in Sluice" },
  retryForSeconds: {
    modes: storing,
    type: count(0, 7 * day),
    fallback: { coalesce: 240, ingress: day },
    help: 'how long a stored request is tried; then it is a failure',
  },
  maxStored: {
    modes: storing,
    type: count(1, 100_000),
    fallback: 10_000,
    help: 'stored requests of one shard; above it requests are refused with 429',
  },
  maxStoredBytes: {
    modes: storing,
    type: count(maxStoredBody, 1024 * mib),
    fallback: 256 * mib,
    help: 'bytes of the stored requests of one shard; likewise',
  },
  maxFailures: {
    modes: storing,
    type: count(1, 10_000),
    fallback: 1000,
    help: 'failures that one shard keeps; above it the oldest is dropped, and counted',
  },
  keepFailuresSeconds: {
    modes: storing,
    type: count(60, 30 * day),
    fallback: 7 * day,
    help: 'how long a failure is kept',
  },
  shards: {
    modes: all,
    type: count(1, 256),
    fallback: 4,
    help: 'Durable Objects among which ids are spread; one handles some hundred requests per second',
  },
} as const satisfies Readonly<Record<string, Field>>

export type FieldName = keyof typeof fields

/** The values of a route: those that were given, and the fallbacks. Throws a RangeError with the first problem. */
export function readFields(given: unknown): Record<string, unknown> {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw new RangeError('is no table of fields')
  const record = given as Readonly<Record<string, unknown>>
  const mode = modes.find((each) => each === record.mode)
  if (mode === undefined) throw new RangeError(`field mode must be one of ${modes.join(', ')}`)
  const unknown = Object.keys(record).find((name) => !Object.hasOwn(fields, name))
  if (unknown !== undefined) throw new RangeError(`there is no field ${JSON.stringify(unknown.slice(0, 40))}`)
  const values: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(fields) as [string, Field][]) {
    const value = Object.hasOwn(record, name) ? record[name] : undefined
    if (!field.modes.includes(mode)) {
      if (value !== undefined) throw new RangeError(`field ${name} does not belong to the mode ${mode}`)
      continue
    }
    const problem = value === undefined ? undefined : problemOf(field.type, value)
    if (problem !== undefined) throw new RangeError(`field ${name} must be ${problem}`)
    if (value === undefined && field.fallback === undefined && !field.optional) {
      throw new RangeError(`field ${name} is missing`)
    }
    values[name] = value ?? fallbackOf(field, mode)
  }
  return values
}

/** The value of a field that a route of the mode does not give. */
export function fallbackOf({ fallback }: Field, mode: Mode): number | string | boolean | undefined {
  return typeof fallback === 'object' ? fallback[mode] : fallback
}

/** The demand that a value does not meet, as the end of a sentence; undefined when it is met. */
function problemOf(type: Kind, value: unknown): string | undefined {
  switch (type.kind) {
    case 'count': {
      const isMet = Number.isInteger(value) && (value as number) >= type.min && (value as number) <= type.max
      return isMet ? undefined : `a whole number from ${type.min} to ${type.max}`
    }
    case 'choice':
      return type.of.includes(value as string) ? undefined : `one of ${type.of.join(', ')}`
    case 'text':
      return typeof value === 'string' && type.is.test(value) ? undefined : type.form
    case 'toggle':
      return typeof value === 'boolean' ? undefined : 'true or false'
    case 'record':
      return typeof value === 'object' && value !== null && !Array.isArray(value) ? undefined : 'a table'
  }
}
