import type { EpochMs } from '../../domain/clock.ts'
import { usual } from '../../domain/forecast.ts'
import { Health } from '../../domain/health.ts'
import type { QueueTotals } from '../../domain/queue-figures.ts'
import type { Slots } from '../../domain/snapshot.ts'
import { Turns } from '../../domain/turns.ts'
import { type Facts, type StoreFigures, systemFacts } from '../../metrics/facts.ts'
import type { Ledger } from '../../metrics/ledger.ts'
import type { ServiceDeps } from '../../operations/services.ts'
import type { ListedAttempt } from '../../store/messages.ts'
import { type Store, StoreTrouble } from '../../store/store.ts'
import { certificateNoticeMs } from '../credentials/rules.ts'
import { endpointDefaults, type ServerDefaults } from '../endpoints/rules.ts'
import type { ExplainedEndpoint, Explainer } from '../why/service.ts'
import { type Diagnosis, diagnose } from './diagnosis.ts'
import {
  type CertificateFacts,
  type DeadFacts,
  type DoctorFacts,
  type EndpointFacts,
  type FoldedNameFacts,
  noAttempts,
  type RecentAttempts,
  type SourceFacts,
  type StoreCondition,
  type StoreDown,
} from './facts.ts'

/** Endpoints that are looked at closely: those with the most waiting deliveries, and those that wait longest. */
const endpointsExamined = { waiting: 40, age: 10 } as const
/** A source refuses everything when it did so for this long, at least so often. */
const refusingMs = 3_600_000
const leastRefusals = 5
const sourcesListed = 10
/** Attempts of one endpoint, and how old they may be. */
const attemptsListed = 50
const attemptsMs = 10 * 60_000
const attemptsAtOnce = 8
const deadWindowMs = 10 * 60_000
const deadCounted = 10_000
const deadListed = 100
const certificatesListed = 50
const namesListed = 50
/** A write that is slower than this is repeated: one slow write is no slow store. */
const repeatCommitMs = 250
const mostCommits = 3

/** An examination of the whole system at one instant. */
interface Examination extends Diagnosis {
  readonly at: EpochMs
  /** Null when the store is down. */
  readonly waiting: QueueTotals | null
}

/** Gathers the facts that the doctor's rules judge. Each examination reads a bounded number of rows, in small steps. */
export class Doctor {
  readonly #deps: DoctorDeps
  #underWay: Promise<Examination> | undefined

  constructor(deps: DoctorDeps) {
    this.#deps = deps
  }

  /** Examines the system. Callers that ask while an examination is under way share it. */
  examine(): Promise<Examination> {
    this.#underWay ??= this.#examine().finally(() => {
      this.#underWay = undefined
    })
    return this.#underWay
  }

  async #examine(): Promise<Examination> {
    const facts = await this.facts()
    if ('trouble' in facts) return { ...diagnose(facts), at: this.#deps.clock.now(), waiting: null }
    return { ...diagnose(facts), at: facts.now, waiting: this.#deps.ledger.server() }
  }

  async facts(): Promise<DoctorFacts | StoreDown> {
    const { dialect } = this.#deps.store
    try {
      const figures = await this.#figures()
      const { condition, storeUp, trouble } = figures
      if (condition !== undefined && storeUp) return await this.#gather(figures, condition)
      return { dialect, trouble: trouble ?? 'The store does not answer.' }
    } catch (error) {
      if (!(error instanceof StoreTrouble)) throw error
      return { dialect, trouble: error.detail ?? `${error.message}.` }
    }
  }

  async #gather(figures: StoreFigures, condition: StoreCondition): Promise<DoctorFacts> {
    const { store, version, limits } = this.#deps
    const now = condition.now
    const { totals, worst } = await this.#deps.explainer.worst(null, endpointsExamined)
    const { waiting: total, endpoints, isExact } = totals
    return {
      ...(await systemFacts(store, version, figures, condition, liveSlots(worst))),
      waiting: { total, endpoints, isExact, limit: limits.maxWaiting, limitPerApp: limits.maxWaitingPerApp },
      shedPerSecond: this.#deps.shedPerSecond?.() ?? 0,
      endpoints: await this.#endpoints(worst, now),
      dead: await this.#dead(now),
      refusingSources: await this.#refusing(),
      certificates: await this.#certificates(now),
      foldedNames: await this.#foldedNames(),
    }
  }

  async #refusing(): Promise<SourceFacts[]> {
    const { store } = this.#deps
    const sources = await store.refusingSources(refusingMs, leastRefusals, sourcesListed)
    const apps = await store.applicationRefs(sources.map(({ app }) => app))
    return sources.map(({ app, id, uid, appId, provider, refusedInRow, refusedCode, acceptedAt }) => ({
      app: apps.get(app)?.uid ?? appId,
      source: uid ?? id,
      provider,
      refusedInRow,
      refusedCode: refusedCode ?? '',
      everAccepted: acceptedAt !== null,
    }))
  }

  /** Read at once, and not from memory: an operator looks whether a command has helped. */
  async #figures(): Promise<StoreFigures> {
    let best = await this.#deps.facts.current(0)
    for (let reads = 1; reads < mostCommits && (best.condition?.commitMs ?? 0) >= repeatCommitMs; reads++) {
      const next = await this.#deps.facts.current(0)
      if (next.condition === undefined || !next.storeUp) return next
      const commitMs = Math.min(next.condition.commitMs, best.condition?.commitMs ?? 0)
      best = { ...next, condition: { ...next.condition, commitMs } }
    }
    return best
  }

  /** Endpoints of operational webhooks are left out: no command names them. */
  async #endpoints(worst: readonly ExplainedEndpoint[], now: EpochMs): Promise<EndpointFacts[]> {
    const { store, clock, limits, serverDefaults } = this.#deps
    const apps = await store.applicationRefs(worst.map(({ endpoint }) => endpoint.app))
    const found: EndpointFacts[] = []
    for (let at = 0; at < worst.length; at += attemptsAtOnce) {
      await Turns.by(clock).next()
      const some = worst.slice(at, at + attemptsAtOnce).map(async (explained) => {
        const app = apps.get(explained.endpoint.app)
        if (app === undefined) return []
        const { key } = explained.endpoint
        const range = { from: now - attemptsMs, until: now + attemptsMs, after: null } as const
        const attempts = await store.listAttempts(key, { ...range, order: 'descending', limit: attemptsListed })
        const sending = explained.lane.live?.snapshot.sending.length ?? 0
        const queue = queueFacts(explained, await store.readFronts(key, sending + 1), now)
        const facts = endpointFacts(explained, limits, serverDefaults)
        return [{ app: app.uid ?? app.id, ...facts, ...queue, recent: recentAttempts(attempts) }]
      })
      found.push(...(await Promise.all(some)).flat())
    }
    return found
  }

  /** The certificates of operational webhooks are left out: no command names their endpoints. */
  async #certificates(now: EpochMs): Promise<CertificateFacts[]> {
    const { store } = this.#deps
    const expiring = await store.expiringCertificates(now + certificateNoticeMs, certificatesListed)
    const apps = await store.applicationRefs(expiring.map(({ app }) => app))
    return expiring.flatMap(({ app, id, uid, expiresAt }) => {
      const owner = apps.get(app)
      return owner === undefined ? [] : [{ app: owner.uid ?? owner.id, endpoint: uid ?? id, expiresAt }]
    })
  }

  async #foldedNames(): Promise<FoldedNameFacts[]> {
    const { store } = this.#deps
    const names = await store.foldedNames(namesListed)
    const apps = await store.applicationRefs(names.flatMap(({ app }) => app ?? []))
    const owned = names.map(({ app, ...thing }) => ({
      ...thing,
      appId: app === null ? null : (apps.get(app)?.id ?? null),
    }))
    // A thing of an application that is being removed goes with it.
    return owned.filter(({ noun, appId }) => appId !== null || noun === 'event type')
  }

  async #dead(now: EpochMs): Promise<DeadFacts> {
    const { store } = this.#deps
    const from = now - deadWindowMs
    const count = (since: EpochMs, until: EpochMs) =>
      store.countListed({ of: 'dead', app: null, endpoint: null, from: since, until }, deadCounted)
    const recent = await count(from, now + 1)
    const before = await count(from - deadWindowMs, from)
    return { windowMs: deadWindowMs, recent, before, worst: recent <= before ? null : await this.#mostDead(from, now) }
  }

  async #mostDead(from: EpochMs, now: EpochMs): Promise<DeadFacts['worst']> {
    const { store } = this.#deps
    const range = { endpoint: null, from, until: now + 1, after: null, order: 'descending', limit: deadListed } as const
    const letters = await store.listDead(null, range)
    const byEndpoint = [...Map.groupBy(letters, ({ endpoint }) => endpoint)]
    const [most] = byEndpoint.toSorted(([, a], [, b]) => b.length - a.length)
    const [endpoint] = most === undefined ? [] : await store.loadEndpoints([most[0]])
    const app = endpoint && (await store.applicationRefs([endpoint.app])).get(endpoint.app)
    if (most === undefined || endpoint === undefined || app === undefined) return null
    const share = Math.round((100 * most[1].length) / letters.length) / 100
    return { app: app.uid ?? app.id, endpoint: endpoint.uid ?? endpoint.id, share }
  }
}

/** The slots of workers that answered just now: those of their last renewal are seconds old. */
function liveSlots(worst: readonly ExplainedEndpoint[]): ReadonlyMap<number, Slots> {
  return new Map(worst.flatMap(({ lane: { live } }) => (live ? [[live.snapshot.worker, live.snapshot.process]] : [])))
}

function endpointFacts(
  { endpoint, why, lane }: ExplainedEndpoint,
  { maxWaitingPerEndpoint }: DoctorDeps['limits'],
  { timeoutMs }: ServerDefaults,
) {
  const { flow, concurrency, damaged = [] } = endpoint
  const snapshot = lane.live?.snapshot
  const health = new Health(lane.health, lane.healthAgeMs, lane.now)
  const circuit = snapshot?.circuit ?? health.circuit
  const openUntil = snapshot?.silentMs == null ? health.openUntil : (lane.live?.at ?? lane.now) + snapshot.silentMs
  const { throttleRate, throttlePeriodSeconds, rateFrom } = lane
  return {
    endpoint: endpoint.uid ?? endpoint.id,
    region: lane.region,
    reason: why.reason,
    detail: why.detail,
    nextAt: why.nextAt,
    waiting: lane.queue.waiting,
    isExact: lane.queue.isExact,
    waitingLimit: flow.overflow === 'refuse' ? (flow.maxWaiting ?? maxWaitingPerEndpoint) : null,
    pace: snapshot?.pace ?? null,
    inFlight: snapshot?.inFlight ?? null,
    concurrency: snapshot?.concurrency ?? concurrency ?? endpointDefaults.concurrency,
    rate:
      throttleRate === null || rateFrom === null
        ? null
        : { perPeriod: throttleRate, periodSeconds: throttlePeriodSeconds, from: rateFrom },
    crowded: snapshot?.crowded ?? null,
    circuit,
    nextProbeAt: circuit === 'closed' || health.manual || !Number.isFinite(openUntil) ? null : Math.ceil(openUntil),
    failingSince: health.failingSince === undefined ? null : Math.round(health.failingSince),
    isSealedShut: damaged.length > 0,
    timeoutMs: endpoint.timeoutMs ?? timeoutMs,
  }
}

type Fronts = Awaited<ReturnType<Store['readFronts']>>

/** How long deliveries have been due that are not being sent, and how fast they arrive. */
function queueFacts({ lane }: ExplainedEndpoint, fronts: Fronts, now: EpochMs) {
  const { sending = [] } = lane.live?.snapshot ?? {}
  const sent = new Set(sending.map(({ message }) => message))
  const waiting = fronts.filter(({ message }) => !sent.has(message))
  const arrivalRate = usual(lane.queue.arrivals)
  return {
    oldestDueMs: Math.max(0, ...waiting.map(({ dueAt }) => now - dueAt)),
    arrivalRate: lane.queue.waiting === 0 ? null : arrivalRate,
  }
}

function recentAttempts(attempts: readonly ListedAttempt[]): RecentAttempts {
  const ended = attempts.filter(({ code }) => code !== 'aborted')
  if (ended.length === 0) return noAttempts
  const timeOf = (some: readonly ListedAttempt[]) => some.reduce((sum, { durationMs }) => sum + durationMs, 0)
  const delivered = ended.filter(({ code }) => code === 'delivered')
  const timeouts = ended.filter(({ code }) => code === 'timeout' || code === 'connect_timeout')
  const failed = ended.find(({ code }) => code !== 'delivered')
  const whole = timeOf(ended)
  return {
    count: ended.length,
    meanMs: whole / ended.length,
    delivered: delivered.length,
    slowestDeliveredMs: Math.max(0, ...delivered.map(({ durationMs }) => durationMs)),
    timeouts: timeouts.length,
    timeoutShare: whole === 0 ? 0 : timeOf(timeouts) / whole,
    lastError: failed === undefined ? null : errorText(failed),
  }
}

/** The receiver's words are not quoted: only the outcome, the status and Sluice's own sentence. */
function errorText({ code, status, error }: ListedAttempt): string {
  const what = status === 0 ? code : `${code} (status ${status})`
  return error === null ? `${what}.` : `${what}: ${error}`
}

interface DoctorDeps
  extends Pick<ServiceDeps, 'store' | 'clock' | 'serverDefaults' | 'limits' | 'version' | 'shedPerSecond'> {
  readonly explainer: Explainer
  readonly ledger: Ledger
  readonly facts: Pick<Facts, 'current'>
}
