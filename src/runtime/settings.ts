import { signatureFamilies } from '../features/applications/noun.ts'
import { logFormats, loggedAttempts, logLevels } from './log-settings.ts'
import {
  address,
  choice,
  commandLine,
  count,
  duration,
  egressProxies,
  encryptionKeys,
  filePath,
  hosts,
  networks,
  origins,
  postgresServer,
  processCount,
  regions,
  type SettingKind,
  size,
  store,
  toggle,
  token,
  webAddress,
} from './setting-kinds.ts'

/**
 * A setting of the server. Its name gives the flag (`inFlight` → `--in-flight`), the variable (`SLUICE_IN_FLIGHT`) and
 * the key in the file (`inFlight`).
 */
export interface Setting<T> {
  readonly kind: SettingKind<NonNullable<T>>
  /** The default; null when "not set" has a meaning of its own. */
  readonly fallback: T
  readonly help: string
  readonly secret: boolean
  /** Whether only a process with an API reads it. */
  readonly ofApi: boolean
}

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour
const kib = 1024
const mib = 1024 * kib

/** All settings. A new one is a line here; flags, variables, the file, help and `sluice config` follow. */
export const settings = {
  store: setting(store, { kind: 'sqlite', path: './data/sluice.db' }, 'database: sqlite:PATH or postgres://…'),
  storeDirect: setting(
    postgresServer,
    null,
    'the Postgres server itself, where store is a pooler, to hear of changes at once',
  ),
  storePasswordFile: setting(filePath, null, 'file with the password of Postgres; read again when a login is refused'),
  storePasswordCommand: setting(commandLine, null, 'command that prints the password of Postgres', 'secret'),
  connections: setting(count(3, 200), null, 'connections to Postgres at most; default: 9, or 6 to a pooler'),
  listen: setting(address, { host: '127.0.0.1', port: 8484 }, 'address of the API; port 0 = any free port', 'api'),
  processes: setting(
    processCount,
    1,
    'processes of `sluice serve` behind its address, for all cores of a machine; auto = one per core; needs Postgres',
    'api',
  ),
  adminKey: setting(token, null, 'fixed admin key, in addition to the keys in the store', 'secret', 'api'),
  // For one release: SLUICE_API_KEY is the variable of commands that call a server. Remove it with its readers.
  apiKey: setting(token, null, 'old name of adminKey, read in this release only', 'secret', 'api'),
  encryptionKey: setting(
    encryptionKeys,
    null,
    'encrypts secrets at rest: 32 bytes in base64, or id:base64,… with the sealing key first; default for SQLite: a key file',
    'secret',
  ),
  publicUrl: setting(webAddress, null, "base of links to this server; default: the request's host", 'api'),
  sessionLifetime: setting(
    duration(minute, 30 * day),
    12 * hour,
    'time that a browser stays signed in; a portal session ends with its token at the latest',
    'api',
  ),
  trustedProxies: setting(
    networks,
    [],
    'networks of reverse proxies whose X-Forwarded-For names the client, for the audit log and limits per address',
    'api',
  ),
  portalFrameAncestors: setting(
    origins,
    [],
    'origins whose pages may show the portal in a frame, such as https://app.example.com',
    'api',
  ),
  allowNetworks: setting(
    networks,
    null,
    'private networks that deliveries may reach; replaces the default, even when empty',
  ),
  allowHttp: setting(toggle, false, 'permit http:// endpoints outside the allowed networks'),
  caFile: setting(filePath, null, 'certificates (PEM) of authorities that receivers may use, beside the usual ones'),
  egressProxy: setting(
    egressProxies,
    [],
    'proxies that deliveries leave through: [NAME=]URL,… with http, https or socks5; NAME is a region, or chosen by endpoints (docs/egress.md)',
    'secret',
  ),
  noProxy: setting(hosts, [], 'hosts that deliveries reach without egressProxy: names, .suffix, networks, or *'),
  egressResolve: setting(
    choice(['sluice', 'proxy'] as const),
    'sluice',
    'where names are resolved behind egressProxy: by Sluice, which checks each address, or by the proxy, which then must',
  ),
  local: setting(
    toggle,
    false,
    'permit loopback endpoints if the API listens on loopback only and allowNetworks is unset',
    'api',
  ),
  lease: setting(
    duration(second, 10 * minute),
    10 * second,
    'time without a heartbeat after which a worker loses its lanes',
  ),
  region: setting(
    regions,
    null,
    'regions whose lanes this process may own, such as eu or eu,default (docs/regions.md); default: all regions',
  ),
  inFlight: setting(count(1, 100_000), 1024, 'concurrent attempts of this process'),
  inFlightPerApp: setting(count(1, 100_000), 512, 'concurrent attempts of this process for one application'),
  timeout: setting(duration(100, 5 * minute), 15 * second, 'time limit of an attempt, for endpoints without their own'),
  connectTimeout: setting(
    duration(100, 5 * minute),
    10 * second,
    'time limit for opening a connection (DNS, TCP, TLS), within timeout, for endpoints without their own',
  ),
  defaultRate: setting(
    count(0, 1_000_000),
    0,
    'attempts per defaultPeriod at one endpoint, for endpoints and applications without their own; 0 = unlimited',
  ),
  defaultPeriod: setting(duration(second, day), second, 'period of defaultRate'),
  defaultBurst: setting(
    count(0, 1_000_000),
    0,
    'attempts that an endpoint on defaultRate may save up; 0 = a tenth of a period',
  ),
  responseLimit: setting(size(0, mib), 16 * kib, 'bytes of a response that are stored with its attempt'),
  responseHeaderLimit: setting(
    size(0, 16 * kib),
    4 * kib,
    'bytes of the headers of a response that are stored with its attempt; 0 = none',
  ),
  signatureHeaders: setting(
    choice(signatureFamilies),
    'webhook',
    'names of the id and signature headers: webhook-…, svix-… or both, for applications without their own',
  ),
  tokenTimeout: setting(
    duration(100, minute),
    10 * second,
    'time limit of a request for an OAuth 2.0 access token; in addition to the time limit of the attempt',
  ),
  tokenRate: setting(
    count(1, 1e6),
    20,
    'requests a second for OAuth 2.0 access tokens to one host, per worker; more wait up to 5s',
  ),
  retryAfterCap: setting(duration(second, 7 * day), day, 'longest Retry-After that is honoured in full'),
  minRetryWait: setting(
    duration(0, hour),
    second,
    'shortest wait before a retry, for every endpoint; 0 = none, for trusted tenants only',
  ),
  failuresPerMinute: setting(
    count(0, 1_000_000),
    60,
    'failed attempts in any minute at one endpoint, half of them at once; a success gives two back; 0 = unlimited',
  ),
  circuitFailures: setting(
    count(0, 1_000_000),
    20,
    'consecutive failures that open the circuit, for endpoints without their own limit; 0 = never open',
  ),
  circuitOpen: setting(
    duration(100, day),
    10 * second,
    'time that a circuit stays open; doubles with each failed probe',
  ),
  circuitMaxOpen: setting(duration(100, day), 10 * minute, 'longest time between two probes of an open circuit'),
  disableAfter: setting(
    duration(0, 365 * day),
    5 * day,
    'disable an endpoint that fails for this long without a success; 0 = never disable',
  ),
  bodyLimit: setting(size(kib, 64 * mib), mib, 'largest request body', 'api'),
  maxWaiting: setting(count(1, 1e9), 50_000_000, 'waiting deliveries in all; above, publishes are refused (429)'),
  maxWaitingPerApp: setting(
    count(1, 1e9),
    10_000_000,
    'waiting deliveries of one application; above, publishes are refused (429)',
  ),
  maxWaitingPerEndpoint: setting(
    count(1, 1e9),
    2_000_000,
    'waiting deliveries of one endpoint; above, publishes are refused (429)',
  ),
  maxCommitDelay: setting(
    duration(10, minute),
    5 * second,
    'longest time that a publish waits for the store; above, further publishes are refused (429)',
    'api',
  ),
  apiRate: setting(
    count(0, 1e6),
    1000,
    'requests a second per key, without publishes; bursts of ten seconds; 0 = unlimited',
    'api',
  ),
  portalRate: setting(count(0, 1e6), 50, 'requests a second per portal token; 0 = unlimited', 'api'),
  apiRatePerApp: setting(
    count(0, 1e6),
    200,
    'requests a second over all keys and tokens of one application; 0 = unlimited',
    'api',
  ),
  publishRate: setting(count(0, 1e7), 0, 'publishes a second per key; 0 = unlimited', 'api'),
  changesPerMinute: setting(
    count(0, 1e6),
    120,
    'audited changes a minute over all keys and tokens of one application; 0 = unlimited',
    'api',
  ),
  maxLive: setting(
    count(1, 100_000),
    500,
    'live streams (open pages) of all callers, half of them for keys of all applications, a tenth for admin keys; above, further ones are refused (429)',
    'api',
  ),
  maxLivePerKey: setting(
    count(1, 100_000),
    20,
    'live streams of one key or portal token; above, further ones are refused (429)',
    'api',
  ),
  maxEndpointsPerApp: setting(count(1, 1e6), 1000, 'endpoints per application', 'api'),
  maxEventTypesPerEndpoint: setting(count(1, 1000), 500, 'event types per endpoint', 'api'),
  checkEventTypes: setting(
    choice(['always', 'never'] as const),
    null,
    'refuse endpoints that name unknown event types; default: once the server has any event type',
    'api',
  ),
  unknownFields: setting(
    choice(['named', 'refused'] as const),
    'named',
    'unknown fields of a publish: named in the answer, or refused (422); a request asks for `refused` by its header Sluice-Unknown-Fields',
    'api',
  ),
  maxSchedulesPerApp: setting(count(1, 1e5), 1000, 'schedules per application', 'api'),
  maxSourcesPerApp: setting(count(1, 1000), 100, 'sources per application', 'api'),
  refusedSamples: setting(count(0, 100), 20, 'refused arrivals kept per source, for a week; 0 = none', 'api'),
  refusedArrivals: setting(
    count(1, 1e6),
    120,
    'refused arrivals a minute from one address at one source, and ten times as many from all; above, arrivals are refused unread (429)',
    'api',
  ),
  arrivalRatePerApp: setting(
    count(0, 1e6),
    0,
    'arrivals a second over all sources of one application; bursts of ten seconds; 0 = unlimited',
    'api',
  ),
  retention: setting(
    duration(0, 3650 * day),
    90 * day,
    'delete messages and their attempts this long after they were accepted; 0 = never delete',
  ),
  deadRetention: setting(
    duration(0, 3650 * day),
    90 * day,
    'delete dead letters this long after they died; 0 = never delete',
  ),
  historyRetention: setting(
    duration(2 * day, 720 * day),
    90 * day,
    'keep the hourly sums behind charts this long; minutes are kept for two days',
  ),
  deadFile: setting(
    filePath,
    null,
    'file to which the leader appends each dead letter as a line of JSON, at least once',
  ),
  deadFileSize: setting(
    size(kib, 1024 * 1024 * mib),
    100 * mib,
    'size at which deadFile is rotated: renamed with a number, and a new file begins',
  ),
  alertsFile: setting(
    filePath,
    null,
    'file with alert rules and receivers, YAML or JSON (docs/alerts.md); default: the default rules, announced to operational webhooks',
  ),
  requestTimeout: setting(
    duration(second, 10 * minute),
    30 * second,
    'time that a client has to send a request',
    'api',
  ),
  maxConnections: setting(
    count(16, 1e6),
    2000,
    'connections of all clients; above, the address with most of them gives one up',
    'api',
  ),
  uploadPace: setting(size(0, mib), 4 * kib, 'minimum upload rate of a request body, per second; 0 = none', 'api'),
  maxUploadPerClient: setting(
    size(64 * kib, 1024 * mib),
    64 * mib,
    'unfinished request bodies of one client; above, further ones are refused (429)',
    'api',
  ),
  maxUpload: setting(
    size(mib, 64 * 1024 * mib),
    256 * mib,
    'unfinished request bodies of all clients; above, further ones are refused (429)',
    'api',
  ),
  writeTimeout: setting(
    duration(100, 10 * minute),
    minute,
    'close the connection of a client that leaves a response unread for this long',
    'api',
  ),
  maxUnreadPerClient: setting(
    size(64 * kib, 1024 * mib),
    32 * mib,
    'unread responses of one client; above, further requests are refused (429)',
    'api',
  ),
  maxUnread: setting(
    size(mib, 64 * 1024 * mib),
    256 * mib,
    'unread responses of all clients; above, further requests are refused (429)',
    'api',
  ),
  metricsListen: setting(
    address,
    null,
    'separate address for /metrics, without a key; default: /metrics is on the API only',
  ),
  metricsPublic: setting(toggle, false, 'serve /metrics on the API without a key', 'api'),
  metricsEndpoints: setting(
    count(0, 1000),
    50,
    'endpoints that have metrics of their own: those with the most waiting deliveries and the most failures; 0 = none',
  ),
  shutdownLimit: setting(duration(0, 10 * minute), 20 * second, 'time that a shutdown waits for attempts in flight'),
  logLevel: setting(choice(logLevels), 'info', 'level of the log on standard error'),
  logFormat: setting(choice(logFormats), null, 'format of the log; default: text on a terminal, else JSON'),
  logAttempts: setting(choice(loggedAttempts), 'none', 'attempts to log, one line each, at level info'),
} as const

export type SettingName = keyof typeof settings
type ValueOf<S> = S extends Setting<infer T> ? T : never

/** A value for every setting. */
export type Config = { readonly [Name in SettingName]: ValueOf<(typeof settings)[Name]> }

export const settingNames = Object.keys(settings) as SettingName[]

type Mark = 'secret' | 'api'

function setting<T>(kind: SettingKind<T>, fallback: NoInfer<T>, help: string, ...marks: Mark[]): Setting<T>
function setting<T>(kind: SettingKind<T>, fallback: null, help: string, ...marks: Mark[]): Setting<T | null>
function setting<T>(kind: SettingKind<T>, fallback: T, help: string, ...marks: Mark[]): unknown {
  return { kind, fallback, help, secret: marks.includes('secret'), ofApi: marks.includes('api') }
}
