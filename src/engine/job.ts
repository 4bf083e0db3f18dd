import type { Clock, SteadyMs } from '../domain/clock.ts'

/**
 * Work that is done in bounded steps, one after the other while there is more, with a turn for everything else in between.
 * A request while a step is under way leads to one more step.
 */
export class Job {
  readonly #clock: Clock
  readonly #step: () => Promise<boolean>
  readonly #onTrouble: (error: unknown) => void
  #endedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #underWay = false
  #requested = false
  #stopped = false

  /** `step` answers whether there is more to do. After trouble the rest waits for the next request. */
  constructor(clock: Clock, step: () => Promise<boolean>, onTrouble: (error: unknown) => void) {
    this.#clock = clock
    this.#step = step
    this.#onTrouble = onTrouble
  }

  /** Requests that the work there is now is done. */
  request(): void {
    this.#requested = true
    if (!this.#underWay && !this.#stopped) void this.#run()
  }

  /** Whether a step is under way or requested. */
  get busy(): boolean {
    return this.#underWay || this.#requested
  }

  /** When the last step ended. */
  get endedAt(): SteadyMs {
    return this.#endedAt
  }

  stop(): void {
    this.#stopped = true
  }

  /** Never rejects: trouble goes to its listener. */
  async #run(): Promise<void> {
    this.#underWay = true
    this.#requested = false
    try {
      const more = await this.#step()
      this.#endedAt = this.#clock.steady()
      this.#underWay = false
      this.#requested ||= more
      if (this.#requested && !this.#stopped) this.#clock.soon(() => void (this.#underWay || this.#run()))
    } catch (error) {
      this.#underWay = false
      this.#onTrouble(error)
    }
  }
}
