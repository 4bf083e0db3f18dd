import type { Notice, NoticeType } from '../features/notices/rules.ts'
import type { Random, SteadyMs } from './clock.ts'
import type { CircuitCommand, CircuitPolicy } from './flow.ts'
import { type HealthSignal, type Outcome, signalOf } from './outcome.ts'
import { Pace, SlidingCount } from './rate.ts'

/** The default circuit policy: it opens after twenty failures in a row, or six of ten among fifty in a minute. */
export const defaultCircuitPolicy: CircuitPolicy = {
  failures: 20,
  ratio: 0.6,
  windowMs: 60_000,
  minimum: 50,
  openMs: 10_000,
  maxOpenMs: 600_000,
  rampMs: 30_000,
}

/** How an endpoint's receiver is judged. */
export interface HealthRules {
  /** Undefined when the circuit never opens by itself. */
  readonly circuit: CircuitPolicy | undefined
  readonly adaptive: boolean
  /** Disabled after failing for this long; 0 for never. */
  readonly disableAfterMs: number
  /** The configured rate per millisecond; undefined when there is none. */
  readonly rate: number | undefined
  readonly concurrency: number
}

/** A change of health that must outlive the worker. */
export interface HealthChange {
  readonly notices: readonly Omit<Notice, 'endpoint'>[]
  /** The endpoint is to be disabled, because it has failed for this long. */
  readonly disableAfterFailingMs?: number
}

/** After a circuit closed, the rate begins at this share of the full rate, and climbs. */
const rampStart = 0.05
/** Without a configured rate, a slot counts as this many requests a millisecond: one each 50 ms. */
const ratePerSlot = 0.02
/** How long the climb from nothing to the full rate takes after a 429. */
const adaptiveClimbMs = 120_000
/** The least rate after any number of 429s: one each ten seconds, or the configured rate if that is lower. */
const leastRate = 0.0001
/** A failing endpoint is saved as such once it has failed for this long, and not at every flicker. */
const failingSaveMs = 60_000
/** A circuit stays open up to this share longer, within the longest open time, so that not all are probed at once. */
const openJitter = 0.2

/**
 * The health of one endpoint's receiver: its circuit, its pace, and since when it has been failing. Pure. The lane's owner
 * keeps it; the part that must outlive the owner is stored as text, in which instants are durations from its saving.
 */
export class Health {
  circuit: CircuitState = 'closed'
  /** An operator opened the circuit, and only an operator closes it. */
  manual = false
  openUntil: SteadyMs = Number.NEGATIVE_INFINITY
  /** How often the circuit opened since it was last closed for good. */
  openings = 0
  /** Failures in a row. */
  failures = 0
  pace: Pace | undefined
  failingSince: SteadyMs | undefined
  /** The number of the last command that was carried out. */
  command = 0
  /** Grows with every transition: an attempt that began in an earlier era says nothing about this one. */
  era = 0
  /** Until when another opening counts as the same trouble. */
  #calmAt: SteadyMs = Number.NEGATIVE_INFINITY
  #cutAt: SteadyMs = Number.NEGATIVE_INFINITY
  #failingSaved = false
  /** The health changed since it was saved. */
  #dirty = false
  readonly #window = new SlidingCount()
  /** Attempts of this second and of the one before, where no rate is configured. */
  readonly #seconds = new SlidingCount()

  /** The health as it was saved `ageMs` ago. A text that cannot be read counts as none. */
  constructor(text: string | null, ageMs: number, now: SteadyMs) {
    const saved = text === null ? null : readHealth(text)
    if (saved === null) return
    const at = now - ageMs
    this.circuit = saved.circuit ?? 'closed'
    this.manual = saved.manual ?? false
    this.openings = saved.openings ?? 0
    this.failures = saved.failures ?? 0
    this.command = saved.order ?? 0
    if (this.circuit !== 'closed') this.openUntil = this.manual ? Number.POSITIVE_INFINITY : at + (saved.openMs ?? 0)
    if (saved.calmMs !== undefined) this.#calmAt = at + saved.calmMs
    if (this.circuit === 'closed' && this.#calmAt < now) this.openings = 0
    if (saved.failingMs !== undefined) {
      this.failingSince = at - saved.failingMs
      this.#failingSaved = true
    }
    if (saved.pace !== undefined) this.pace = new Pace(...saved.pace, at)
  }

  /** Until when the circuit lets nothing start; after that, one probe. */
  get silentUntil(): SteadyMs {
    return this.circuit === 'open' ? this.openUntil : Number.NEGATIVE_INFINITY
  }

  /** Whether at most one attempt may be under way. */
  get probing(): boolean {
    return this.circuit !== 'closed'
  }

  /** An attempt begins. With an open circuit it is the probe. */
  began(): HealthChange | undefined {
    if (this.circuit !== 'open') return undefined
    this.circuit = 'half_open'
    this.era++
    return this.#notify('endpoint.circuit.half_open', { openings: this.openings })
  }

  /** An attempt ended. */
  ended(outcome: Outcome, begun: Begun, rules: HealthRules, now: SteadyMs, random: Random): HealthChange | undefined {
    const signal = signalOf(outcome)
    if (rules.rate === undefined) this.#seconds.count(true, 2000, now)
    if (this.pace !== undefined && now >= this.pace.endsAt) this.pace = undefined

    const change = this.#judgeCircuit(signal, begun, rules, now, random) ?? this.#adapt(signal, begun, rules, now)
    return outcome.code === 'delivered' ? this.#succeeded(change) : this.#failed(change, outcome, rules, now)
  }

  #judgeCircuit(
    signal: HealthSignal,
    begun: Begun,
    rules: HealthRules,
    now: SteadyMs,
    random: Random,
  ): HealthChange | undefined {
    if (signal === 'nothing' || begun.era !== this.era) return undefined
    const isFailure = signal === 'unwell' || (signal === 'crowded' && (!rules.adaptive || this.circuit === 'half_open'))
    if (this.circuit === 'half_open') {
      return isFailure ? this.#open('probe', rules, now, random) : this.#close('probe', rules, now)
    }
    const policy = rules.circuit
    if (policy === undefined || (signal === 'crowded' && !isFailure)) return undefined
    this.#window.count(!isFailure, policy.windowMs, now)
    if (!isFailure) {
      if (this.failures > 0) this.#dirty = true
      this.failures = 0
      return undefined
    }
    this.failures++
    this.#dirty = true
    if (this.failures >= policy.failures) return this.#open('failures', rules, now, random)
    if (this.#window.total >= policy.minimum && this.#window.bad >= policy.ratio * this.#window.total) {
      return this.#open('ratio', rules, now, random)
    }
    return undefined
  }

  /** Halves the rate, once for all attempts that were under way at the last halving. */
  #adapt(signal: HealthSignal, { startedAt }: Begun, rules: HealthRules, now: SteadyMs): HealthChange | undefined {
    if (signal !== 'crowded' || !rules.adaptive || startedAt <= this.#cutAt) return undefined
    const full = rules.rate ?? Math.max(this.#seconds.peak, 1) / 1000
    this.#cutAt = now
    this.pace ??= new Pace(full, full, adaptiveClimbMs, now)
    this.pace.halve(Math.min(leastRate, full), adaptiveClimbMs, now)
    return this.#saved(noNotice)
  }

  #succeeded(change: HealthChange | undefined): HealthChange | undefined {
    if (this.failingSince === undefined) return change
    this.failingSince = undefined
    if (!this.#failingSaved) return change
    return this.#saved(change ?? noNotice)
  }

  #failed(
    change: HealthChange | undefined,
    { code }: Outcome,
    { disableAfterMs }: HealthRules,
    now: SteadyMs,
  ): HealthChange | undefined {
    if (code === 'aborted' || code === 'internal') return change
    if (this.failingSince === undefined) {
      this.failingSince = now
      this.#dirty = true
    }
    const failingMs = now - this.failingSince
    if (disableAfterMs > 0 && failingMs >= disableAfterMs) {
      this.failingSince = undefined
      return this.#saved({ notices: change?.notices ?? [], disableAfterFailingMs: failingMs })
    }
    if (this.#failingSaved || failingMs < failingSaveMs) return change
    return this.#saved(change ?? noNotice)
  }

  /** Carries out an operator's command, once. */
  carryOut(command: CircuitCommand | null, rules: HealthRules, now: SteadyMs): HealthChange | undefined {
    if (command === null || command.n <= this.command) return undefined
    this.command = command.n
    if (command.action === 'open') return this.#openByHand()
    const closed = this.circuit === 'closed' ? undefined : this.#close('operator', rules, now)
    if (command.action === 'reset') this.forget()
    return this.#saved(closed ?? noNotice)
  }

  /** Follows other rules from now on. A circuit that they would never have opened is closed. */
  follow(rules: HealthRules, now: SteadyMs): HealthChange | undefined {
    if (rules.circuit !== undefined || this.manual || this.circuit === 'closed') return undefined
    return this.#close('policy', rules, now)
  }

  /** Forgets everything, except that an operator opened the circuit. */
  forget(): void {
    if (this.circuit !== 'closed') this.era++
    this.circuit = this.manual ? 'open' : 'closed'
    this.failures = 0
    this.openings = 0
    this.#calmAt = Number.NEGATIVE_INFINITY
    this.failingSince = undefined
    this.pace = undefined
    this.#window.clear()
    this.#dirty = true
  }

  /** The health as text for the next owner; null when it needs to know nothing. */
  toText(now: SteadyMs): string | null {
    const { circuit, manual, openings, failures, command, pace } = this
    const left = (until: SteadyMs) => Math.max(0, Math.ceil(until - now))
    const saved: SavedHealth = {
      ...(circuit === 'closed' ? {} : { circuit, openings }),
      ...(circuit === 'closed' || manual ? {} : { openMs: left(this.openUntil) }),
      ...(manual ? { manual } : {}),
      ...(circuit === 'closed' && this.#calmAt > now ? { openings, calmMs: left(this.#calmAt) } : {}),
      ...(failures > 0 ? { failures } : {}),
      ...(this.failingSince === undefined ? {} : { failingMs: Math.round(now - this.failingSince) }),
      ...(pace === undefined || pace.endsAt <= now
        ? {}
        : { pace: [pace.rateAt(now), pace.full, pace.climbMs] as const }),
      ...(command > 0 ? { order: command } : {}),
    }
    return Object.keys(saved).length === 0 ? null : JSON.stringify(saved)
  }

  /** The text to save when the lane is released; undefined when it is saved already. */
  unsaved(now: SteadyMs): string | null | undefined {
    return this.#dirty ? this.toText(now) : undefined
  }

  #open(reason: string, { circuit }: HealthRules, now: SteadyMs, random: Random): HealthChange {
    if (this.circuit === 'closed' && now > this.#calmAt) this.openings = 0
    const forMs = openTime(circuit ?? defaultCircuitPolicy, this.openings, random)
    this.openings++
    this.circuit = 'open'
    this.openUntil = now + forMs
    this.era++
    this.#window.clear()
    const { failures, openings } = this
    return this.#notify('endpoint.circuit.opened', { reason, failures, openings, openForMs: Math.ceil(forMs) })
  }

  #openByHand(): HealthChange {
    const was = this.circuit
    this.circuit = 'open'
    this.manual = true
    this.openUntil = Number.POSITIVE_INFINITY
    this.era++
    if (was === 'open') return this.#saved(noNotice)
    const { failures, openings } = this
    const data = { reason: 'operator', failures, openings, openForMs: null }
    return this.#notify('endpoint.circuit.opened', data)
  }

  #close(reason: string, rules: HealthRules, now: SteadyMs): HealthChange {
    const { rampMs } = rules.circuit ?? defaultCircuitPolicy
    this.circuit = 'closed'
    this.manual = false
    this.openUntil = Number.NEGATIVE_INFINITY
    this.failures = 0
    this.era++
    this.#calmAt = now + rampMs
    const full = rules.rate ?? rules.concurrency * ratePerSlot
    this.pace = rampMs > 0 ? new Pace(full * rampStart, full, rampMs, now) : undefined
    return this.#notify('endpoint.circuit.closed', { reason, rampMs })
  }

  #notify(type: NoticeType, data: Notice['data']): HealthChange {
    return this.#saved({ notices: [{ type, data }] })
  }

  #saved(change: HealthChange): HealthChange {
    this.#failingSaved = this.failingSince !== undefined
    this.#dirty = false
    return change
  }
}

/** When an attempt began, and in which era. */
interface Begun {
  readonly startedAt: SteadyMs
  readonly era: number
}

/** How long a circuit stays open: never shorter than `openMs` and never longer than `maxOpenMs`. */
function openTime({ openMs, maxOpenMs }: CircuitPolicy, openings: number, random: Random): number {
  const doubledMs = openMs * 2 ** Math.min(openings, 30)
  const leastMs = Math.max(openMs, Math.min(doubledMs, maxOpenMs / (1 + openJitter)))
  const mostMs = Math.max(leastMs, Math.min(maxOpenMs, leastMs * (1 + openJitter)))
  return Math.min(mostMs, leastMs + (mostMs - leastMs) * random())
}

const noNotice: HealthChange = { notices: [] }

export type CircuitState = 'closed' | 'open' | 'half_open'

/** The part of a receiver's health that outlives the owner of its lane. All instants are durations from its saving. */
interface SavedHealth {
  readonly circuit?: CircuitState
  readonly manual?: boolean
  readonly openMs?: number
  readonly openings?: number
  readonly calmMs?: number
  readonly failures?: number
  readonly failingMs?: number
  /** Rate, full rate, and how long the whole climb takes. */
  readonly pace?: readonly [rate: number, full: number, climbMs: number]
  /** The number of the last command that was carried out; the name is part of the stored format. */
  readonly order?: number
}

/** The saved health; null when it cannot be read, so that the receiver counts as new. */
function readHealth(text: string): SavedHealth | null {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
