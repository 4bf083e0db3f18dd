import type { Clock } from '../domain/clock.ts'

/** Steps that the filters and shapes of one request may take, and those of one application per second. */
const requestSteps = 10_000_000
const applicationStepsPerSecond = 10_000_000
/** Steps of work that cannot pause, because its caller holds a transaction open: 50 ms. */
export const atOnceSteps = 1_000_000
/** Applications whose use is remembered; above, the oldest one is forgotten and starts with a full allowance. */
const applicationsLimit = 4096

/** Steps that one request may still take for filters and shapes. */
export class Work {
  #left: number
  readonly #application: Allowance | undefined

  constructor(application?: Allowance, limitSteps: number = requestSteps) {
    this.#application = application
    this.#left = limitSteps
  }

  /** The steps that may still be taken. */
  get left(): number {
    return Math.min(this.#left, this.#application?.left ?? Infinity)
  }

  /** Takes the steps if that many are left; returns whether they were. */
  take(steps: number): boolean {
    if (steps > this.left) return false
    this.add(steps)
    return true
  }

  /** Counts steps that are taken even if fewer are left. */
  add(steps: number): void {
    this.#left -= steps
    this.#application?.add(steps)
  }
}

/** Steps that an application may take: as many per second as it may take at once. */
class Allowance {
  readonly #clock: Clock
  #left = applicationStepsPerSecond
  #at: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#at = clock.steady()
  }

  get left(): number {
    const now = this.#clock.steady()
    const earned = ((now - this.#at) / 1000) * applicationStepsPerSecond
    this.#left = Math.min(applicationStepsPerSecond, this.#left + earned)
    this.#at = now
    return this.#left
  }

  add(steps: number): void {
    this.#left -= steps
  }
}

/** The allowances of the applications whose endpoints filter or shape. */
export class Allowances {
  readonly #clock: Clock
  readonly #known = new Map<number, Allowance>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The work that one request of an application may cause. */
  workOf(app: number, limitSteps: number = requestSteps): Work {
    let known = this.#known.get(app)
    if (known === undefined) {
      known = new Allowance(this.#clock)
      this.#known.set(app, known)
      if (this.#known.size > applicationsLimit) this.#known.delete(this.#known.keys().next().value as number)
    }
    return new Work(known, limitSteps)
  }
}
