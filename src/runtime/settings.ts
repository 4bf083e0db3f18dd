import { logLevels } from './log.ts'
import {
  address,
  choice,
  count,
  duration,
  encryptionKeys,
  type Kind,
  networks,
  size,
  store,
  toggle,
  token,
  webAddress,
} from './setting-kinds.ts'

/**
 * One thing an operator can set. Its name gives the flag (`inFlight` → `--in-flight`), the variable
 * (`SLUICE_IN_FLIGHT`) and the key in the file (`inFlight`).
 */
export interface Setting<T> {
  readonly kind: Kind<NonNullable<T>>
  /** What holds when nobody says anything; null when that itself has a meaning. */
  readonly fallback: T
  readonly help: string
  readonly secret: boolean
}

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour
const kib = 1024
const mib = 1024 * kib

/** Every setting Sluice has. A new one is a line here; flags, variables, the file, help and `sluice config` follow. */
export const settings = {
  store: setting(
    store,
    { kind: 'sqlite', path: './data/sluice.db' },
    'where everything is kept: sqlite:PATH or postgres://…',
  ),
  listen: setting(address, { host: '127.0.0.1', port: 8484 }, 'where the API listens; port 0 takes a free one'),
  apiKey: setting(token, null, 'a fixed admin key, beside those in the store', 'secret'),
  encryptionKey: setting(
    encryptionKeys,
    null,
    'seals secrets at rest: 32 bytes in base64, or id:base64,… of which the first seals; SQLite makes a file of its own',
    'secret',
  ),
  publicUrl: setting(webAddress, null, 'where people reach this server, for links to it; else as the request came'),
  allowNetworks: setting(
    networks,
    null,
    'private networks that may be delivered to; when set, even empty, exactly these',
  ),
  allowHttp: setting(toggle, false, 'permit http:// targets outside the allowed networks'),
  local: setting(toggle, false, 'permit loopback targets while listening on loopback only and allowNetworks is unset'),
  lease: setting(duration(second, 10 * minute), 10 * second, 'how long a silent worker keeps its lanes'),
  inFlight: setting(count(1, 100_000), 1024, 'attempts under way at once'),
  inFlightPerApp: setting(count(1, 100_000), 512, 'attempts under way at once for one application'),
  timeout: setting(duration(100, 5 * minute), 15 * second, 'limit of one attempt, for endpoints that set none'),
  responseLimit: setting(size(0, mib), 16 * kib, "how much of a receiver's answer is kept"),
  retryAfterCap: setting(duration(second, 7 * day), day, 'the longest Retry-After that is obeyed in full'),
  minRetryWait: setting(
    duration(0, hour),
    second,
    'the shortest wait before a retry, whatever an endpoint sets; 0 for none, where you trust every tenant',
  ),
  failuresPerMinute: setting(
    count(0, 1_000_000),
    60,
    'failed attempts a minute at one endpoint, whatever it sets; a success gives two back; 0 for any number',
  ),
  circuitFailures: setting(
    count(0, 1_000_000),
    20,
    'failed attempts in a row that open the circuit of an endpoint that sets none; 0 for never',
  ),
  circuitOpen: setting(
    duration(100, day),
    10 * second,
    'how long a circuit stays open, doubled each time a probe fails',
  ),
  circuitMaxOpen: setting(duration(100, day), 10 * minute, 'the longest a circuit stays open between two probes'),
  disableAfter: setting(
    duration(0, 365 * day),
    5 * day,
    'how long an endpoint may fail without one success before it is disabled; 0 for ever',
  ),
  bodyLimit: setting(size(kib, 64 * mib), mib, 'the largest request body accepted'),
  maxWaiting: setting(count(1, 1e9), 50_000_000, 'deliveries that may wait in all before publishes are refused (429)'),
  maxWaitingPerApp: setting(count(1, 1e9), 10_000_000, 'deliveries that may wait for one application'),
  maxWaitingPerEndpoint: setting(count(1, 1e9), 2_000_000, 'deliveries that may wait for one endpoint'),
  maxCommitDelay: setting(
    duration(10, minute),
    5 * second,
    'how long a publish may wait for the store before others are refused (429)',
  ),
  apiRate: setting(
    count(0, 1e6),
    1000,
    'requests a second for each key, publishes apart, ten seconds of them at once; 0 for any',
  ),
  portalRate: setting(count(0, 1e6), 50, 'the same for each portal token'),
  apiRatePerApp: setting(count(0, 1e6), 200, 'the same for all keys and tokens of one application together'),
  publishRate: setting(count(0, 1e7), 0, 'publishes a second for each key; 0 for any'),
  changesPerMinute: setting(
    count(0, 1e6),
    120,
    'audited changes a minute by all keys and tokens of one application together; 0 for any',
  ),
  maxEndpointsPerApp: setting(count(1, 1e6), 1000, 'endpoints that one application may have'),
  maxEventTypesPerEndpoint: setting(count(1, 1000), 500, 'event types that one endpoint may name'),
  maxSchedulesPerApp: setting(count(1, 1e5), 1000, 'schedules that one application may have'),
  retention: setting(
    duration(0, 3650 * day),
    90 * day,
    'how long messages and their attempts are kept after they came; 0 for ever',
  ),
  deadRetention: setting(
    duration(0, 3650 * day),
    90 * day,
    'how long dead letters are kept after they died; 0 for ever',
  ),
  requestTimeout: setting(duration(second, 10 * minute), 30 * second, 'how long a client may take to send a request'),
  uploadPace: setting(
    size(0, mib),
    4 * kib,
    'the least that must arrive of a request body each second; 0 for any pace',
  ),
  maxUploadPerClient: setting(
    size(64 * kib, 1024 * mib),
    64 * mib,
    'request bodies that may be arriving from one client before further ones are refused (429)',
  ),
  maxUpload: setting(size(mib, 64 * 1024 * mib), 256 * mib, 'request bodies that may be arriving from all clients'),
  writeTimeout: setting(
    duration(100, 10 * minute),
    minute,
    'how long a client may leave an answer unread before its connection is closed',
  ),
  maxUnreadPerClient: setting(
    size(64 * kib, 1024 * mib),
    32 * mib,
    'answers that one client may leave unread before further ones are refused (429)',
  ),
  maxUnread: setting(size(mib, 64 * 1024 * mib), 256 * mib, 'answers that all clients together may leave unread'),
  shutdownLimit: setting(duration(0, 10 * minute), 20 * second, 'how long a shutdown waits for attempts under way'),
  logLevel: setting(choice(logLevels), 'info', 'how much is logged to standard error'),
} as const

export type SettingName = keyof typeof settings
type ValueOf<S> = S extends Setting<infer T> ? T : never

/** A value for every setting. */
export type Config = { readonly [Name in SettingName]: ValueOf<(typeof settings)[Name]> }

export const settingNames = Object.keys(settings) as SettingName[]

/** `inFlight` → `SLUICE_IN_FLIGHT`. */
export function variableOf(name: string): string {
  return `SLUICE_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
}

/** `inFlight` → `--in-flight`. */
export function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

function setting<T>(kind: Kind<T>, fallback: NoInfer<T>, help: string, secrecy?: 'secret'): Setting<T>
function setting<T>(kind: Kind<T>, fallback: null, help: string, secrecy?: 'secret'): Setting<T | null>
function setting<T>(kind: Kind<T>, fallback: T, help: string, secrecy?: 'secret'): unknown {
  return { kind, fallback, help, secret: secrecy === 'secret' }
}
