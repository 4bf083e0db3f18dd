import { resolve } from 'node:path'
import type { CircuitPolicy } from '../domain/flow.ts'
import { defaultCircuitPolicy } from '../domain/health.ts'
import type { Run } from '../domain/lane.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { AttemptWatch } from '../engine/attempt-watch.ts'
import { Engine, type WorkerFigures } from '../engine/engine.ts'
import type { AlertSettings } from '../features/alerts/file.ts'
import { AlertWatch } from '../features/alerts/job.ts'
import { DeadFile } from '../features/dead-file/job.ts'
import { linesOf } from '../features/dead-lines/service.ts'
import type { ServerDefaults } from '../features/endpoints/rules.ts'
import { InboxReader } from '../features/inbox/job.ts'
import { readInboxRow } from '../features/inbox/reading-service.ts'
import { AlertReceivers } from '../features/notices/job.ts'
import type { HttpDeps } from '../http/app.ts'
import type { Publisher } from '../intake/publisher.ts'
import type { Scanner } from '../json/scan.ts'
import { Leader } from '../leader/leader.ts'
import { leaderJobs } from '../leader/leader-jobs.ts'
import type { Facts } from '../metrics/facts.ts'
import type { Trial } from '../operations/services.ts'
import { readAuthorities } from '../runtime/authorities.ts'
import { systemClock } from '../runtime/clock.ts'
import { permittedNetworks } from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import { runCommand, thisProcess } from '../runtime/process.ts'
import { systemRandom, systemRandomBytes, systemRandomText } from '../runtime/random.ts'
import type { Config } from '../runtime/settings.ts'
import { version } from '../runtime/version.ts'
import type { OpenTarget, OutgoingMessage, Sender } from '../sender/send.ts'
import { openSender, type SenderDeps } from '../sender/sender.ts'
import { type FetchedKeys, keySetBytesLimit } from '../sources/key-sets.ts'
import type { Store } from '../store/store.ts'
import { makeSecret } from '../wire/secret.ts'
import { logAttempts, type StoreTroubles } from './logging.ts'
import type { Tracing } from './tracing.ts'

/** Deliveries under way. */
export interface Delivering {
  /** Waits for attempts under way up to the limit; then cancels them, records them and releases the lanes. */
  stop(limitMs: number): Promise<void>
  /** Whether nothing can be sent within this time, as far as is known. */
  isIdle(withinMs: number): boolean
  /** Whether something could be sent within this time, but for the end of the run. */
  lacksTime(withinMs: number): boolean
  /** Figures of the worker in this process. */
  figures(): WorkerFigures & { readonly leads: boolean }
}

interface DeliveringDeps {
  readonly config: Config
  readonly store: Store
  readonly log: Logger
  readonly troubles: StoreTroubles
  readonly publisher: () => Publisher
  readonly scanner: () => Scanner
  /** Undefined when traces are not exported. */
  readonly tracing: Tracing | undefined
  /** Names the process in `sluice lane` and in logs. */
  readonly description: string
  readonly facts: Facts
  readonly alerts: AlertSettings
  /** Notes in the history how many deliveries wait. */
  readonly lookAtDepths: () => Promise<void>
  /** For a process that ends by itself. */
  readonly run?: Run | undefined
}

/** The policy of endpoints that set none. */
function circuitOf({ circuitFailures, circuitOpen, circuitMaxOpen }: Config): CircuitPolicy | undefined {
  if (circuitFailures === 0) return undefined
  const maxOpenMs = Math.max(circuitOpen, circuitMaxOpen)
  return { ...defaultCircuitPolicy, failures: circuitFailures, openMs: circuitOpen, maxOpenMs }
}

/** The limits of endpoints and applications that set none. */
export function serverDefaultsOf(config: Config): ServerDefaults {
  const { timeout, connectTimeout, defaultRate, defaultPeriod, defaultBurst } = config
  return {
    timeoutMs: timeout,
    connectTimeoutMs: connectTimeout,
    rate: defaultRate || null,
    periodMs: defaultPeriod,
    burst: defaultBurst || null,
  }
}

/** How this program sends. */
export function senderDepsOf(config: Config): SenderDeps {
  return {
    clock: systemClock,
    version,
    allowNetworks: permittedNetworks(config),
    allowHttp: config.allowHttp,
    extraCa: config.caFile === null ? [] : readAuthorities(config.caFile),
    egress: { proxies: config.egressProxy, noProxy: config.noProxy, resolvedBy: config.egressResolve },
    responseLimitBytes: config.responseLimit,
    responseHeaderLimitBytes: config.responseHeaderLimit,
    retryAfterCapMs: config.retryAfterCap,
    randomText: systemRandomText,
    tokenTimeoutMs: config.tokenTimeout,
    tokenRate: config.tokenRate,
    signatureHeaders: config.signatureHeaders,
  }
}

/** Makes one attempt apart from all endpoints and queues. */
export function sendOnce(
  sender: Sender,
  { url, secret, auth, clientCertificate, timeoutMs, signatureHeaders, message }: Trial,
): Promise<Outcome> {
  const secrets = [{ secret, expiresAt: null }]
  const credentials = { auth, clientCertificates: clientCertificate }
  const target = sender.open({ url, secrets, headers: {}, ...credentials, timeoutMs, signatureHeaders })
  return outcomeOf(target, { ...message, contentType: 'application/json' })
}

function outcomeOf(target: OpenTarget, message: OutgoingMessage): Promise<Outcome> {
  return new Promise((resolve) => void target.send(message, () => {}, resolve))
}

const fetchTimeoutMs = 5000

/** Fetches public keys of providers. It is a sender with one kind of request, so the address guard stands before it. */
export function keyFetcher(config: Config, timeoutMs = fetchTimeoutMs) {
  let sender: Sender | undefined
  return {
    async fetch(url: string): Promise<FetchedKeys> {
      // One byte more than a set may have, so that a longer one is seen to be longer.
      sender ??= openSender({ ...senderDepsOf(config), responseLimitBytes: keySetBytesLimit + 1 })
      const secrets = [{ secret: makeSecret(systemRandomBytes), expiresAt: null }]
      const target = sender.open({ url, method: 'GET', secrets, headers: {}, timeoutMs })
      const message = { id: 'keys', body: new Uint8Array(0), contentType: 'application/json' }
      const outcome = await outcomeOf(target, message)
      if (outcome.code !== 'delivered' || outcome.response === undefined) {
        throw new Error(`the keys at ${url} cannot be had: ${outcome.error ?? `status ${outcome.status}`}`)
      }
      const headers: Record<string, string> = JSON.parse(outcome.responseHeaders ?? '{}')
      return { body: outcome.response, cacheControl: headers['cache-control'] }
    },
    close: async () => sender?.close(),
  }
}

/** The senders of single requests: trials of endpoints, and fetches of the public keys of providers. */
export function openSenders(config: Config, closers: AsyncDisposableStack): Pick<HttpDeps, 'tryOnce' | 'fetchKeys'> {
  const keys = keyFetcher(config)
  closers.defer(() => keys.close())
  let trials: Sender | undefined
  closers.defer(() => trials?.close())
  return {
    fetchKeys: keys.fetch,
    tryOnce: (trial: Trial) => {
      trials ??= openSender(senderDepsOf(config))
      return sendOnce(trials, trial)
    },
  }
}

/** One watch made of several; undefined without any. */
function watchBy(all: readonly (AttemptWatch | undefined)[]): AttemptWatch | undefined {
  const watches = all.filter((each) => each !== undefined)
  if (watches.length < 2) return watches[0]
  return {
    begin(started) {
      const watched = watches.flatMap((each) => each.begin(started) ?? [])
      return {
        trace: watched.find(({ trace }) => trace !== undefined)?.trace,
        end(ended) {
          for (const each of watched) each.end(ended)
        },
      }
    },
  }
}

/** Delivers from the store until stopped. */
export async function startDelivering(deps: DeliveringDeps): Promise<Delivering> {
  const { config, store, log, troubles, description } = deps
  const sender = openSender(senderDepsOf(config))
  let leader: Leader | undefined
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
      run: deps.run,
    },
    leaseMs: config.lease,
    regions: config.region,
    serverDefaults: serverDefaultsOf(config),
    health: { circuit: circuitOf(config), disableAfterMs: config.disableAfter },
    waitingLimit: config.maxWaitingPerEndpoint,
    description,
    process: { version, ...thisProcess },
    log: (sentence) => log.info(sentence),
    watch: watchBy([logAttempts(config.logAttempts, log, systemClock), deps.tracing?.attempts]),
    onInbox: () => leader?.request('inbox'),
    onTrouble: (error) => troubles.note(error, 'trouble while delivering; trying again'),
  })
  // Before anything can die.
  const deadFile = await openDeadFile(deps)
  await engine.start()
  const leading = startLeading(deps, deadFile)
  leader = leading
  return {
    async stop(limitMs) {
      // Side by side: a job of the leader may wait for the store, and no attempt goes on beyond the limit for it.
      await Promise.all([
        leading.stop().catch((error) => troubles.note(error, 'stopped without handing the lead on')),
        engine.stop(limitMs),
      ])
      await sender.close()
    },
    figures: () => ({ ...engine.figures, leads: leading.leads }),
    isIdle: (withinMs) => leading.isSettled && engine.isIdle(withinMs, leading.publishedAt),
    lacksTime: (withinMs) => engine.lacksTime(withinMs),
  }
}

/** The dead-letter file of the settings, if there is one. */
async function openDeadFile({ config, store, log, scanner }: DeliveringDeps): Promise<DeadFile | undefined> {
  const path = deadFileOf(config)
  if (path === undefined) return undefined
  const file = new DeadFile({
    path,
    limitBytes: config.deadFileSize,
    machine: thisProcess.host,
    writer: systemRandomText(16),
    store,
    regions: config.region,
    clock: systemClock,
    linesOf: (letters) => linesOf({ store, clock: systemClock, scanner: scanner() }, letters),
    log: { info: (sentence) => log.info(sentence), error: (sentence) => log.error(sentence) },
  })
  await file.open()
  return file
}

/** The path of the dead-letter file; undefined when there is none. */
export function deadFileOf({ deadFile }: Config): string | undefined {
  return deadFile === null ? undefined : resolve(deadFile)
}

/** Every process that delivers is a candidate to lead; the leader does the jobs that the whole store needs once. */
function startLeading(
  { config, store, log, troubles, publisher, scanner, description, facts, alerts, lookAtDepths }: DeliveringDeps,
  deadFile: DeadFile | undefined,
): Leader {
  const onTrouble = (error: unknown, job: string) =>
    troubles.note(error, 'trouble while leading; trying again', { job })
  const leader = new Leader({
    store,
    clock: systemClock,
    leaseMs: config.lease,
    candidate: { id: systemRandomText(16), description },
    jobs: leaderJobs({
      store,
      clock: systemClock,
      publisher,
      retention: { historyMs: config.retention || null, deadMs: config.deadRetention || null },
      regions: config.region,
      hoursKeptMs: config.historyRetention,
      waitingLimit: config.maxWaitingPerEndpoint,
      deadFile,
      inbox: new InboxReader({
        store,
        clock: systemClock,
        publisher,
        regions: config.region,
        bodyLimitBytes: config.bodyLimit,
        read: (row) =>
          readInboxRow(row, { scanner: scanner(), bodyLimitBytes: config.bodyLimit, now: systemClock.now() }),
        log: (sentence) => log.warn(sentence),
      }),
      lookAtDepths,
      alerts: new AlertWatch({
        store,
        clock: systemClock,
        facts,
        version,
        rules: alerts.rules,
        log: (sentence) => log.warn(sentence),
      }),
      alertReceivers: new AlertReceivers({
        store,
        clock: systemClock,
        receivers: alerts.receivers,
        run: runCommand,
        newSecret: () => makeSecret(systemRandomBytes),
        log: (sentence) => log.info(sentence),
      }),
      leaseMs: config.lease,
      log: (sentence) => log.info(sentence),
      onTrouble: (error) => onTrouble(error, 'schedules'),
    }),
    log: (sentence) => log.info(sentence),
    onTrouble: (job, error) => onTrouble(error, job),
  })
  leader.start()
  return leader
}
