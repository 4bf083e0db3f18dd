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

  /** How long to wait for a token: 0 while the bucket lasts. It takes none. */
  waitMs(key: string, now: SteadyMs): number {
    return Math.max(0, (this.#fullAt.get(key) ?? now) + this.#intervalMs - now - this.#depthMs)
  }

  /** Takes a token. The answer is how long to wait for one: 0 while the bucket lasts. */
  take(key: string, now: SteadyMs): number {
    const fullAt = Math.max(this.#fullAt.get(key) ?? now, now) + this.#intervalMs
    const overMs = fullAt - now - this.#depthMs
    if (overMs > 0) return overMs
    this.#keep(key, fullAt)
    return 0
  }

  /**
   * Takes tokens for a cost that is known afterwards. A bucket that lacks them owes them, up to as many as it holds. The
   * answer is how many of them the bucket had.
   */
  charge(key: string, now: SteadyMs, tokens: number): number {
    const before = Math.max(this.#fullAt.get(key) ?? now, now)
    this.#keep(key, Math.min(before + tokens * this.#intervalMs, now + 2 * this.#depthMs))
    return Math.min(tokens, Math.max(0, Math.floor((now + this.#depthMs - before) / this.#intervalMs)))
  }

  #keep(key: string, fullAt: SteadyMs): void {
    this.#fullAt.delete(key)
    this.#fullAt.set(key, fullAt)
    if (this.#fullAt.size > remembered) this.#fullAt.delete(this.#fullAt.keys().next().value as string)
  }
}

/** Failures of one address that may come at once, and how long it takes until one more may. */
const burst = 20
const intervalMs = 3000

/**
 * Counts failed authentication per address: a token bucket each, for the addresses that failed last. Only failures are
 * asked about, so a caller with a right key is never refused for the failures of others behind the same address.
 */
export class FailureLimit {
  readonly #rate = new KeyedRate(burst, intervalMs)

  /** Notes a failure. The answer is how long to wait before the next: 0 while the bucket lasts. */
  note(ip: string, now: SteadyMs): number {
    return this.#rate.take(networkOf(ip), now)
  }
}

/** The network that an address counts for: an IPv6 client has a whole /64 of addresses. */
export function networkOf(ip: string): string {
  if (!ip.includes(':') || ip.startsWith('::ffff:')) return ip
  const [head = '', tail] = ip.split('::')
  const groups = head.split(':')
  if (tail !== undefined) while (groups.length < 4) groups.push('0')
  return groups.slice(0, 4).join(':')
}
