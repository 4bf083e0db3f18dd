import { lookup } from 'node:dns/promises'
import { existsSync, rmSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'
import type { Run } from '../domain/lane.ts'
import { RecentRate } from '../domain/rate.ts'
import { defaultRules } from '../features/alerts/figures.ts'
import type { AlertSettings } from '../features/alerts/file.ts'
import { fileProblem } from '../features/dead-file/job.ts'
import { HistoryWriter } from '../features/history/meter.ts'
import { clusterCounts, ownCounts, RecentAttempts } from '../features/live/meter.ts'
import type { HttpDeps } from '../http/app.ts'
import { Admission, type AdmissionLimits } from '../intake/admission.ts'
import { Publisher } from '../intake/publisher.ts'
import { Scanner } from '../json/scan.ts'
import { Facts } from '../metrics/facts.ts'
import { Ledger } from '../metrics/ledger.ts'
import { Meter, type RefusalCode } from '../metrics/meter.ts'
import { observed } from '../metrics/observed-store.ts'
import { fixedAdminKey } from '../operations/auth.ts'
import { type Services, servicesOf } from '../operations/services.ts'
import { systemClock } from '../runtime/clock.ts'
import { ConfigError, type Loaded, permittedNetworks, showSettings } from '../runtime/config.ts'
import { keyFileOf, loadEncryptionKeys } from '../runtime/encryption-keys.ts'
import type { Logger } from '../runtime/log.ts'
import { backlog, boundTo } from '../runtime/process.ts'
import type { Member } from '../runtime/processes.ts'
import { systemRandom, systemRandomBytes, systemRandomText } from '../runtime/random.ts'
import type { Address } from '../runtime/setting-kinds.ts'
import type { Config } from '../runtime/settings.ts'
import { storePassword } from '../runtime/store-password.ts'
import type { TraceSettings } from '../runtime/trace-settings.ts'
import { version } from '../runtime/version.ts'
import { AddressPolicy, checkUrl } from '../sender/guard.ts'
import type { Schema, SchemaPlan } from '../store/migrations.ts'
import type { Store, StoreContext } from '../store/store.ts'
import { openVault, SealError } from '../store/vault.ts'
import { type Delivering, deadFileOf, openSenders, serverDefaultsOf, startDelivering } from './delivering.ts'
import { StoreTroubles, seldom } from './logging.ts'
import { composeMetrics, type MetricsServer } from './metrics.ts'
import type { Tracing } from './tracing.ts'

/** A process that works on a SQLite file owns it, or is a guest beside its owner. */
export type Role = 'owner' | 'guest'

/** The HTTP API. */
export interface Api {
  /** The application, to which hooks can be added before it listens. */
  readonly app: FastifyInstance
  /** Listens and returns the address with its actual port. */
  listen(address: Address): Promise<Address>
  /** Stops listening and answers the requests under way. Connections still open after the limit are closed. */
  close(): Promise<void>
}

/** Applications, and endpoints, whose waiting deliveries go into the history. */
const depthsKept = 500

/** Time that the API has to close. Requests under way take milliseconds; idle connections are closed at once. */
const closeApiMs = 2000
const fullSentence =
  'all connections are taken (maxConnections): the address with most of them gives connections up; raise the setting, or refuse that address before Sluice'
/** Publishes that load shedding refused count as recent for this long, and up to twice as long. */
const shedWindowMs = 30_000

/** The parts of one program over one store. Each is made once, when it is first asked for. */
export interface Parts {
  readonly store: Store
  /** Counts what this process commits to the store. */
  readonly meter: Meter
  /** Figures of the whole store. */
  readonly facts: Facts
  /** The fixed admin key of the API; null when the settings give none. */
  readonly adminKey: string | null
  /** The way in for messages. It counts waiting deliveries, which costs the store time. */
  publisher(): Publisher
  /** The parts that the operations of the API work with. */
  services(): Services
  /** Builds the HTTP API, which loads Fastify; it does not listen yet. */
  openApi(): Promise<Api>
  /** Offers metrics at an address of their own, without a key. */
  listenForMetrics(address: Address): Promise<MetricsServer>
  /** Delivers from the store until stopped. `description` names the process to operators; `run` is of one that ends by itself. */
  startDelivering(description: string, run?: Run): Promise<Delivering>
}

/** How a program opens its parts, beside its settings. */
export interface Opening {
  /** By default the process that delivers. */
  readonly role?: Role
  readonly origins?: Partial<Loaded['origins']>
  readonly traces?: TraceSettings | null
  /** Goes on with a SQLite file whose log is missing. */
  readonly acceptLoss?: boolean
  /** This process as one of several behind an address. */
  readonly member?: Member | undefined
}

interface Composing extends Required<Opening> {
  readonly config: Config
  readonly log: Logger
}

/**
 * Opens the store and composes the parts over it. This folder is the composition root: it alone knows every part, and the
 * program (main.ts) and the library are both made from it. Closing the store closes the parts in the reverse order of their
 * opening; when a part cannot be opened, those before it are closed.
 */
export async function openParts(config: Config, log: Logger, opening: Opening = {}): Promise<Parts> {
  const { role = 'owner', origins = {}, traces = null, acceptLoss = false, member } = opening
  const closers = new AsyncDisposableStack()
  try {
    return await compose({ config, log, role, origins, traces, acceptLoss, member }, closers)
  } catch (error) {
    await closers.disposeAsync()
    throw error
  }
}

async function compose(opening: Composing, closers: AsyncDisposableStack): Promise<Parts> {
  const { config, log, role, traces, member } = opening
  // Before the store is made: a start that fails leaves nothing behind.
  if (role === 'owner') assertDeadFile(config)
  const alerts = await loadAlerts(config)
  const tracing = traces === null ? undefined : await loadTracing(traces, log)
  closers.defer(() => tracing?.close())
  const troubles = new StoreTroubles(systemClock, log)
  const opened = await openStore(opening, troubles)
  closers.defer(() => opened.close())
  const senders = openSenders(config, closers)
  const watched = watch(opening, opened, troubles, closers)
  const store: Store = { ...watched.store, close: () => closers.disposeAsync() }
  const { meter, ledger, admission } = watched
  const facts = new Facts({ store, clock: systemClock, ledger, onTrouble: watched.onTrouble })
  const adminKey = await fixedAdminKey(config, store)

  let delivering: Delivering | undefined
  const metrics = composeMetrics({ config, store, meter, facts, log, member, delivering: () => delivering })
  closers.defer(() => metrics.stop())
  closers.defer(() => facts.stop())
  const publisher = once(() => {
    ledger.start()
    return new Publisher({ store, tracer: tracing, clock: systemClock, admission })
  })
  const scanner = once(() => new Scanner(systemRandomBytes(4).reduce((seed, byte) => (seed << 8) | byte, 0)))
  const context = once(() => ({
    ...contextOf(opening, adminKey, store, publisher(), scanner()),
    ...senders,
    ...refusalsOf(meter),
    liveSources: watched.liveSources,
    onArrival: meter.arrive.bind(meter),
    metrics: metrics.page,
  }))
  const services = once(() => servicesOf(context(), facts, ledger))

  return {
    store,
    meter,
    facts,
    adminKey,
    publisher,
    services,
    async openApi() {
      facts.start()
      await metrics.open()
      const { buildApp } = await import('../http/app.ts')
      const app = await buildApp(context(), services())
      return apiOver(app, Math.min(closeApiMs, config.shutdownLimit), member !== undefined)
    },
    listenForMetrics: (address) => metrics.listen(address),
    async startDelivering(description, run) {
      const { lookAtDepths } = watched
      const parts = { config, store, log, troubles, publisher, scanner, tracing, facts, alerts, lookAtDepths }
      delivering = await startDelivering({ ...parts, description, run })
      return delivering
    },
  }
}

/** The store with the observers of its commits. */
function watch({ config, role }: Composing, opened: Store, troubles: StoreTroubles, closers: AsyncDisposableStack) {
  const [meter, recent] = [new Meter(), new RecentAttempts(systemClock)]
  const onTrouble = (error: unknown) => troubles.note(error, 'the store could not be surveyed; trying again')
  // Several processes may write to one Postgres; the owner of a SQLite file hears of guests.
  const othersWrite = opened.traits.isShared || role === 'guest'
  const ledger = new Ledger({ store: opened, clock: systemClock, isTold: true, othersWrite, onTrouble })
  closers.defer(() => ledger.stop())
  const admission = new Admission(admissionLimitsOf(config), ledger)
  const history = new HistoryWriter({
    store: opened,
    clock: systemClock,
    newWriter: () => systemRandomText(8),
    onTrouble: (error) => troubles.note(error, 'sums of the history could not be written; trying again'),
  })
  const store = observed(opened, systemClock, [ledger, admission, meter, history, recent])
  troubles.follow(store)
  closers.defer(() => troubles.stop())
  closers.defer(() => history.stop())
  const counts = store.traits.isShared ? clusterCounts(store, systemClock) : ownCounts(meter)
  const lookAtDepths = async () => history.look(await ledger.depths(depthsKept))
  return { store, ledger, admission, meter, onTrouble, lookAtDepths, liveSources: { recent, counts } }
}

/** Counts refused publishes. Those that load shedding refused have a recent rate, which alerts watch. */
function refusalsOf(meter: Meter): Pick<HttpDeps, 'onRefusedPublish' | 'shedPerSecond'> {
  const shed = new RecentRate(shedWindowMs)
  return {
    onRefusedPublish: (code: RefusalCode) => {
      meter.refuse(code)
      if (code === 'overloaded') shed.add(1, systemClock.steady())
    },
    shedPerSecond: () => shed.perMs(systemClock.steady()) * 1000,
  }
}

/** The rules and receivers of alerts. Only a program with an alerts file loads the parser. */
async function loadAlerts({ alertsFile }: Config): Promise<AlertSettings> {
  if (alertsFile === null) return { rules: defaultRules, receivers: [] }
  const { loadAlertFile } = await import('../features/alerts/file.ts')
  return loadAlertFile(alertsFile)
}

/** Throws `ConfigError` when the dead-letter file cannot be written. */
function assertDeadFile(config: Config): void {
  const path = deadFileOf(config)
  const problem = path === undefined ? undefined : fileProblem(path, systemRandomText(12))
  if (problem !== undefined) throw new ConfigError([`deadFile: cannot be written: ${problem}`])
}

function apiOver(app: FastifyInstance, closeLimitMs: number, isShared: boolean): Api {
  return {
    app,
    async listen({ host, port }) {
      // Fastify would listen at all addresses of this name, with servers of its own that have none of the limits.
      const { address } = host === 'localhost' ? await lookup(host) : { address: host }
      await app.listen({ host: address, port, backlog, ...(isShared && { reusePort: true }) })
      return boundTo(app.server, { host, port })
    },
    async close() {
      const cancel = systemClock.after(closeLimitMs, () => app.server.closeAllConnections())
      await app.close()
      cancel()
    },
  }
}

/** Loads OpenTelemetry, which only a program with its variables does. */
async function loadTracing(settings: TraceSettings, log: Logger): Promise<Tracing | undefined> {
  const { openTracing } = await import('./tracing.ts')
  return openTracing(settings, log, systemClock)
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/** Opens the store that the settings name. */
async function openStore({ config, log, role, acceptLoss }: Composing, troubles: StoreTroubles): Promise<Store> {
  const { store } = config
  const contextOf = (): StoreContext => ({
    clock: systemClock,
    random: systemRandom,
    randomText: systemRandomText,
    vault: openVault(loadEncryptionKeys(config, systemRandomBytes), systemRandomBytes),
    log: seldom(systemClock, (sentence) => log.warn(sentence)),
    onTrouble: (sentence) => troubles.say(sentence),
  })
  if (store.kind === 'postgres') {
    const { openPostgresStore } = await import('../store/postgres/open.ts')
    const { storeDirect: directUrl, connections } = config
    const readPassword = storePassword(config)
    return openPostgresStore(contextOf(), { url: store.url, directUrl, connections, readPassword })
  }
  const { openSqliteStore } = await import('../store/sqlite/open.ts')
  const { makeFile } = await import('../store/sqlite/database-file.ts')
  // The file comes first, so that a path that cannot be used leaves no encryption key behind.
  const removeUnused = makeFile(store.path)
  try {
    const hadKeyFile = existsSync(keyFileOf(store.path))
    return await openSqliteStore(contextOf(), { path: store.path, role, acceptLoss }).catch((error: unknown) => {
      // The new key opens nothing, and would hide that the right one is missing.
      if (!hadKeyFile && error instanceof SealError) rmSync(keyFileOf(store.path), { force: true })
      throw error
    })
  } catch (error) {
    removeUnused()
    throw error
  }
}

/** The schema of the store, which is only read, and what this program would make of it. */
export async function schemaPlan(config: Config): Promise<SchemaPlan> {
  const { knownMigrations, planFor } = await import('../store/migrations.ts')
  return planFor(knownMigrations(config.store.kind), await schemaOf(config))
}

async function schemaOf(config: Config): Promise<Schema> {
  const { store, storeDirect } = config
  if (store.kind === 'postgres') {
    const { readSchema } = await import('../store/postgres/migrate.ts')
    const { Servers } = await import('../store/postgres/servers.ts')
    const url = storeDirect ?? store.url
    return readSchema(new Servers({ url, clock: systemClock, readPassword: storePassword(config) }))
  }
  return (await import('../store/sqlite/migrate.ts')).readSchema(store.path)
}

function admissionLimitsOf(config: Config): AdmissionLimits {
  return {
    perEndpoint: config.maxWaitingPerEndpoint,
    perApplication: config.maxWaitingPerApp,
    server: config.maxWaiting,
    commitDelayMs: config.maxCommitDelay,
  }
}

function contextOf(
  { config, log, origins }: Composing,
  adminKey: string | null,
  store: Store,
  publisher: Publisher,
  scanner: Scanner,
): Omit<HttpDeps, 'liveSources' | 'tryOnce' | 'fetchKeys'> {
  const policy = new AddressPolicy({ allowNetworks: permittedNetworks(config), allowHttp: config.allowHttp })
  const sayFull = seldom(systemClock, (sentence) => log.warn({ maxConnections: config.maxConnections }, sentence))
  return {
    store,
    publisher,
    scanner,
    clock: systemClock,
    randomBytes: systemRandomBytes,
    randomText: systemRandomText,
    checkUrl: (url) => checkUrl(url, policy),
    adminKey,
    publicUrl: config.publicUrl,
    portalFrameAncestors: config.portalFrameAncestors,
    bodyLimitBytes: config.bodyLimit,
    serverDefaults: serverDefaultsOf(config),
    signatureHeaders: config.signatureHeaders,
    requestTimeoutMs: config.requestTimeout,
    trustedProxies: config.trustedProxies,
    limits: config,
    version,
    settings: () => showSettings(config, origins),
    onBug: (error) => log.error({ err: error }, 'a request failed because of a bug in Sluice'),
    onHangUp: (request) => log.debug(request, 'a client hung up'),
    onFull: () => sayFull(fullSentence),
  }
}
