import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import type { FastifyInstance } from 'fastify'
import type { CircuitPolicy } from './domain/flow.ts'
import { defaultCircuitPolicy } from './domain/health.ts'
import { Engine } from './engine/engine.ts'
import { buildApp } from './http/app.ts'
import { Admission } from './intake/admission.ts'
import { countingEnds, Depths } from './intake/depths.ts'
import { Publisher } from './intake/publisher.ts'
import { Scanner } from './json/scan.ts'
import { Leader } from './leader/leader.ts'
import { leaderJobs } from './leader/leader-jobs.ts'
import { systemClock } from './runtime/clock.ts'
import { loadEncryptionKeys } from './runtime/encryption-key.ts'
import type { Logger } from './runtime/log.ts'
import { permittedNetworks } from './runtime/networks.ts'
import { systemRandom, systemRandomBytes, systemRandomText } from './runtime/random.ts'
import type { Config } from './runtime/settings.ts'
import { version } from './runtime/version.ts'
import { AddressPolicy } from './sender/guard.ts'
import { openSender } from './sender/open.ts'
import { checkUrl } from './sender/url.ts'
import type { Store, StoreContext } from './store/store.ts'
import { openVault } from './store/vault.ts'

/**
 * The composition root: how settings become parts, and the only file that knows every part. The program (main.ts) and
 * the library (index.ts) are both made from it.
 */

/** Opens the store that the settings name. Which one stands behind a URL is decided here alone. */
export async function openStore(config: Config, log: Logger, role: 'owner' | 'guest' = 'owner'): Promise<Store> {
  const { store } = config
  if (store.kind === 'sqlite' && store.path !== ':memory:')
    mkdirSync(dirname(store.path), { recursive: true, mode: 0o700 })
  const context: StoreContext = {
    clock: systemClock,
    random: systemRandom,
    randomText: systemRandomText,
    vault: openVault(loadEncryptionKeys(config, systemRandomBytes), systemRandomBytes),
    log: (sentence) => log.warn(sentence),
  }
  if (store.kind === 'sqlite') {
    const { openSqliteStore } = await import('./store/sqlite/open.ts')
    return counted(await openSqliteStore(context, { path: store.path, role }))
  }
  const { openPostgresStore } = await import('./store/postgres/open.ts')
  return counted(await openPostgresStore(context, { url: store.url }))
}

/** What waits in each store that was opened here. */
const depthsOf = new WeakMap<Store, Depths>()

function counted(store: Store): Store {
  const depths = new Depths(systemClock)
  const counting = countingEnds(store, depths, systemClock)
  depthsOf.set(counting, depths)
  return counting
}

/** The newest schema this Sluice knows for the store. */
export async function newestSchema({ store }: Config): Promise<{ readonly version: number; readonly name: string }> {
  const { knownMigrations } =
    store.kind === 'sqlite' ? await import('./store/sqlite/migrate.ts') : await import('./store/postgres/migrate.ts')
  return knownMigrations().at(-1) ?? { version: 0, name: 'empty' }
}

const publisherOf = new WeakMap<Store, Publisher>()

/** The way in for messages; one per store, so that all that arrive together share a transaction. */
export function openPublisher(config: Config, store: Store, log: Logger): Publisher {
  const known = publisherOf.get(store)
  if (known) return known
  const publisher = makePublisher(config, store, log)
  publisherOf.set(store, publisher)
  return publisher
}

function makePublisher(config: Config, store: Store, log: Logger): Publisher {
  const depths = depthsOf.get(store)
  if (depths === undefined) return new Publisher({ store, clock: systemClock })
  depths.follow(store, (error) => log.warn({ err: error }, 'what waits could not be counted; trying again'))
  const limits = {
    perEndpoint: config.maxWaitingPerEndpoint,
    perApplication: config.maxWaitingPerApp,
    server: config.maxWaiting,
    commitDelayMs: config.maxCommitDelay,
  }
  return new Publisher({ store, clock: systemClock, admission: new Admission(limits, depths, systemClock) })
}

/** Builds the API; it does not listen yet. */
export function openApi(
  config: Config,
  store: Store,
  log: Logger,
  publisher: Publisher = openPublisher(config, store, log),
): FastifyInstance {
  const policy = new AddressPolicy({ allowNetworks: permittedNetworks(config), allowHttp: config.allowHttp })
  return buildApp({
    store,
    publisher,
    scanner: new Scanner(systemRandomBytes(4).reduce((seed, byte) => (seed << 8) | byte, 0)),
    clock: systemClock,
    randomBytes: systemRandomBytes,
    randomText: systemRandomText,
    checkUrl: (url) => checkUrl(url, policy),
    apiKey: config.apiKey,
    publicUrl: config.publicUrl,
    bodyLimitBytes: config.bodyLimit,
    requestTimeoutMs: config.requestTimeout,
    limits: config,
    onBug: (error) => log.error({ err: error }, 'a bug: a request failed for no fault of its own'),
    onHangUp: ({ method, url }) => log.debug({ method, path: url.split('?', 1)[0] }, 'a client hung up'),
  })
}

/** The policy of endpoints that set none. */
function circuitOf({ circuitFailures, circuitOpen, circuitMaxOpen }: Config): CircuitPolicy | undefined {
  if (circuitFailures === 0) return undefined
  const maxOpenMs = Math.max(circuitOpen, circuitMaxOpen)
  return { ...defaultCircuitPolicy, failures: circuitFailures, openMs: circuitOpen, maxOpenMs }
}

/** Deliveries under way. */
export interface Delivering {
  /** Waits for attempts under way up to the limit; then gives them up, records what happened and hands lanes back. */
  stop(limitMs: number): Promise<void>
  /** Whether nothing can be sent within this time, as far as is known. */
  isIdle(withinMs: number): boolean
  /** How many attempts ended how, since the start. */
  readonly tally: Readonly<Record<'delivered' | 'waiting' | 'dead', number>>
}

/** Delivers from the store until stopped. `description` says for people which process this is. */
export async function startDelivering(
  config: Config,
  store: Store,
  log: Logger,
  description: string,
): Promise<Delivering> {
  const sender = openSender({
    clock: systemClock,
    version,
    allowNetworks: permittedNetworks(config),
    allowHttp: config.allowHttp,
    responseLimitBytes: config.responseLimit,
    retryAfterCapMs: config.retryAfterCap,
  })
  const engine = new Engine({
    store,
    sender,
    clock: systemClock,
    random: systemRandom,
    randomText: systemRandomText,
    limits: {
      inFlight: config.inFlight,
      inFlightPerApp: config.inFlightPerApp,
      failuresPerMinute: config.failuresPerMinute,
      leastRetryWaitMs: config.minRetryWait,
    },
    leaseMs: config.lease,
    defaultTimeoutMs: config.timeout,
    health: { circuit: circuitOf(config), disableAfterMs: config.disableAfter },
    waitingLimit: config.maxWaitingPerEndpoint,
    description,
    log: (sentence) => log.info(sentence),
    onTrouble: (error) => log.warn({ err: error }, 'trouble while delivering; trying again'),
  })
  await engine.start()
  const leader = startLeading(config, store, log, description)
  return {
    async stop(limitMs) {
      await leader.stop().catch((error) => log.warn({ err: error }, 'stopped without handing the lead on'))
      await engine.stop(limitMs)
      await sender.close()
    },
    isIdle: (withinMs) => leader.isSettled && engine.isIdle(withinMs, leader.publishedAt),
    tally: engine.tally,
  }
}

/** Leads when nobody else does: whoever delivers also sees to what is done once for the whole store. */
function startLeading(config: Config, store: Store, log: Logger, description: string): Leader {
  const onTrouble = (error: unknown, job: string) =>
    log.warn({ err: error, job }, 'trouble while leading; trying again')
  const leader = new Leader({
    store,
    clock: systemClock,
    leaseMs: config.lease,
    candidate: { id: systemRandomText(16), description },
    jobs: leaderJobs({
      store,
      clock: systemClock,
      publisher: () => openPublisher(config, store, log),
      retention: { historyMs: config.retention || null, deadMs: config.deadRetention || null },
      waitingLimit: config.maxWaitingPerEndpoint,
      onTrouble: (error) => onTrouble(error, 'schedules'),
    }),
    log: (sentence) => log.info(sentence),
    onTrouble: (job, error) => onTrouble(error, job),
  })
  leader.start()
  return leader
}
