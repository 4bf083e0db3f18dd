import type { AppErrorCode } from '../domain/app-error.ts'
import { replay } from '../domain/delivery.ts'
import { type DeadReason, deadReasons, type Verdict } from '../domain/judge.ts'
import { counts, type OutcomeCode, outcomeCodes } from '../domain/outcome.ts'
import type { Publication, RestingEnd, Settlement } from '../store/store.ts'
import { deliveryEnds, measures, statusClasses } from './measures.ts'
import type { CommitObserver } from './observed-store.ts'

/** Endpoints whose failures are counted one by one. Beyond, the endpoint whose last failure is longest ago is forgotten. */
const failingKept = 10_000

/** The code of the error of a refused publish; `internal` for a bug. */
export type RefusalCode = AppErrorCode | 'internal'

type StatusClass = (typeof statusClasses)[number]

type DeliveryEnd = (typeof deliveryEnds)[number]

/** The end of a delivery that became a dead letter. */
export function endOf(reason: DeadReason): 'dead' | 'expired' | 'dropped' {
  if (reason === 'expired') return 'expired'
  return reason === 'overflow' || reason === 'disabled' ? 'dropped' : 'dead'
}

/** Observations in buckets. */
export class Histogram {
  /** Upper bounds, in seconds. */
  readonly bounds: readonly number[]
  /** Observations by bucket, not cumulated; the last is of those above every bound. */
  readonly counts: Float64Array
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  observe(seconds: number): void {
    const { bounds, counts } = this
    let place = 0
    while (place < bounds.length && seconds > (bounds[place] as number)) place++
    counts[place] = (counts[place] as number) + 1
    this.sum += seconds
  }
}

/** Counters by name. */
export type Counts<Name extends string> = Record<Name, number>

/**
 * Counts the commits of this process since its start, as sums in memory. Each commit is counted by the process that made
 * it, so that the sums of several processes add up.
 */
export class Meter implements CommitObserver {
  messagesAccepted = 0
  messagesRepeated = 0
  deliveriesAccepted = 0
  deliveriesRetried = 0
  readonly ends: Counts<DeliveryEnd> = zeros(deliveryEnds)
  /** Every reason from the start: Prometheus does not count the first value of a new series as an increase. */
  readonly deadLetters: Counts<DeadReason> = zeros(deadReasons)
  /** By the code of the error; from the start those that say that Sluice itself is in trouble. */
  readonly refused = new Map<RefusalCode, number>([
    ['overloaded', 0],
    ['unavailable', 0],
  ])
  /** Arrivals at sources, by provider and result. */
  readonly arrivals = new Map<string, number>()
  /** Failed attempts by endpoint; the endpoint that failed last is the last. */
  readonly failing = new Map<number, { readonly app: number; failures: number }>()
  readonly deliveryWait = new Histogram(measures.deliveryWait.buckets)
  readonly slotDelay = new Histogram(measures.slotDelay.buckets)
  readonly attemptDelay = new Histogram(measures.attemptDelay.buckets)
  readonly attemptDuration = new Histogram(measures.attemptDuration.buckets)
  readonly deliveryDuration = new Histogram(measures.deliveryDuration.buckets)
  readonly publishDuration = new Histogram(measures.publishDuration.buckets)
  readonly settleDuration = new Histogram(measures.settleDuration.buckets)
  readonly #attempts = new Float64Array(outcomeCodes.length * statusClasses.length)

  accepted({ endpoints, special }: Publication, merged: readonly number[]): void {
    this.messagesAccepted++
    this.deliveriesAccepted += endpoints.length
    this.ends.coalesced += merged.length
    if (special !== undefined) for (const { drop } of special) if (drop !== undefined) this.#died(drop)
  }

  coalesced(_app: number, endpoints: readonly number[]): void {
    this.ends.coalesced += endpoints.length
  }

  repeated(): void {
    this.messagesRepeated++
  }

  settled(settlements: readonly Settlement[]): void {
    for (const settlement of settlements) {
      if (settlement.attempt !== null) this.#attempted(settlement, settlement.attempt)
      this.#judged(settlement.verdict)
    }
  }

  ended(ends: readonly RestingEnd[]): void {
    for (const { reason } of ends) this.#died(reason)
  }

  cancelled(count: number): void {
    this.ends.cancelled += count
  }

  took(what: 'publish' | 'settle', ms: number): void {
    const histogram = what === 'publish' ? this.publishDuration : this.settleDuration
    histogram.observe(ms / 1000)
  }

  /** Counts a refused publish by the code of its error. */
  refuse(code: RefusalCode): void {
    this.refused.set(code, (this.refused.get(code) ?? 0) + 1)
  }

  /** Counts an arrival at a source. */
  arrive(provider: string, result: string): void {
    const name = `${provider} ${result}`
    this.arrivals.set(name, (this.arrivals.get(name) ?? 0) + 1)
  }

  /** Attempts by outcome and class of status: the usual pairs from the start, others once there is one. */
  *attempts(): Iterable<{
    readonly outcome: OutcomeCode
    readonly status: StatusClass
    readonly count: number
  }> {
    for (const [i, count] of this.#attempts.entries()) {
      const outcome = outcomeCodes[Math.floor(i / statusClasses.length)] as OutcomeCode
      const status = statusClasses[i % statusClasses.length] as StatusClass
      if (count > 0 || usualStatuses(outcome).includes(status)) yield { outcome, status, count }
    }
  }

  #attempted({ endpoint, app, row }: Settlement, attempt: NonNullable<Settlement['attempt']>): void {
    const { code, status, durationMs, waitedMs, heldUpMs = 0, lateMs } = attempt
    const place = (outcomePlaces.get(code) as number) * statusClasses.length + statusPlace(status)
    this.#attempts[place] = (this.#attempts[place] as number) + 1
    this.attemptDuration.observe(durationMs / 1000)
    if (lateMs !== undefined) this.attemptDelay.observe(lateMs / 1000)
    if (code !== 'delivered' && counts(code)) this.#failed(endpoint, app)
    if (waitedMs === undefined || row.class === replay) return
    if (row.attempts + row.priorAttempts === 0) {
      this.deliveryWait.observe(waitedMs / 1000)
      this.slotDelay.observe(heldUpMs / 1000)
    }
    if (code === 'delivered') this.deliveryDuration.observe((waitedMs + durationMs) / 1000)
  }

  #judged(verdict: Verdict): void {
    if (verdict.state === 'delivered') this.ends.delivered++
    else if (verdict.state === 'dead') this.#died(verdict.reason)
    else this.deliveriesRetried++
  }

  #died(reason: DeadReason): void {
    this.ends[endOf(reason)]++
    this.deadLetters[reason]++
  }

  #failed(endpoint: number, app: number): void {
    const { failing } = this
    const known = failing.get(endpoint) ?? { app, failures: 0 }
    known.failures++
    // Put behind the others, so that the first is the one whose last failure is longest ago.
    failing.delete(endpoint)
    failing.set(endpoint, known)
    if (failing.size > failingKept) failing.delete(failing.keys().next().value as number)
  }
}

const outcomePlaces: ReadonlyMap<OutcomeCode, number> = new Map(outcomeCodes.map((code, place) => [code, place]))

function usualStatuses(outcome: OutcomeCode): readonly StatusClass[] {
  if (outcome === 'delivered') return ['2xx']
  if (outcome === 'refused') return ['4xx', '5xx']
  if (outcome === 'redirected') return ['3xx']
  return outcome === 'untried' ? [] : ['none']
}

function statusPlace(status: number): number {
  return status >= 100 && status < 600 ? Math.floor(status / 100) : 0
}

function zeros<Name extends string>(names: readonly Name[]): Counts<Name> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Counts<Name>
}
