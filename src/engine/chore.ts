import type { Clock, SteadyMs } from '../domain/clock.ts'

/**
 * Work that the store does in bounded steps, one after the other while there is more, with a turn for everything else in
 * between. Asked for while it is under way, it looks once more when it is done.
 */
export class Chore {
  readonly #clock: Clock
  readonly #step: () => Promise<boolean>
  readonly #onTrouble: (error: unknown) => void
  /** When the last step ended. */
  endedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #underWay = false
  #again = false
  #stopped = false

  /** `step` answers whether there is more to do. After trouble the rest is left until the next time it is asked for. */
  constructor(clock: Clock, step: () => Promise<boolean>, onTrouble: (error: unknown) => void) {
    this.#clock = clock
    this.#step = step
    this.#onTrouble = onTrouble
  }

  /** Sees to it that what there is to do now is done. */
  ask(): void {
    this.#again = true
    if (!this.#underWay && !this.#stopped) void this.#run()
  }

  /** Whether something is under way, or known to be left to do. */
  get busy(): boolean {
    return this.#underWay || this.#again
  }

  stop(): void {
    this.#stopped = true
  }

  /** Never rejects: trouble goes to its listener. */
  async #run(): Promise<void> {
    this.#underWay = true
    this.#again = false
    try {
      const more = await this.#step()
      this.endedAt = this.#clock.steady()
      this.#underWay = false
      this.#again ||= more
      if (this.#again && !this.#stopped) this.#clock.soon(() => void (this.#underWay || this.#run()))
    } catch (error) {
      this.#underWay = false
      this.#onTrouble(error)
    }
  }
}
