import type { SteadyMs } from '../domain/clock.ts'

const remembered = 10_000

/** A token bucket for each key, kept as the instant at which it is full again, for the keys that came last. */
export class KeyedRate {
  readonly #intervalMs: number
  readonly #depthMs: number
  /** The key that came longest ago first. */
  readonly #fullAt = new Map<string, SteadyMs>()

  /** `burst` tokens, and one more every `intervalMs`. */
  constructor(burst: number, intervalMs: number) {
    this.#intervalMs = intervalMs
    this.#depthMs = burst * intervalMs
  }

  /** Takes a token. The answer is how long to wait for one: 0 while the bucket lasts. */
  take(key: string, now: SteadyMs): number {
    const fullAt = Math.max(this.#fullAt.get(key) ?? now, now) + this.#intervalMs
    const overMs = fullAt - now - this.#depthMs
    if (overMs > 0) return overMs
    this.#fullAt.delete(key)
    this.#fullAt.set(key, fullAt)
    if (this.#fullAt.size > remembered) this.#fullAt.delete(this.#fullAt.keys().next().value as string)
    return 0
  }
}
