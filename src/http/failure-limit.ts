import type { SteadyMs } from '../domain/clock.ts'

/** Failures of one address that may come at once, and how long it takes until one more may. */
const burst = 20
const intervalMs = 3000
const remembered = 10_000

/**
 * Counts failed authentication per address: a token bucket each, for the addresses that failed last. Only failures are
 * asked about, so whoever has a right key is never kept out by others behind the same address.
 */
export class FailureLimit {
  /** When each address's bucket is full again; the one that failed longest ago first. */
  readonly #fullAt = new Map<string, SteadyMs>()

  /** Notes a failure. The answer is how long to wait before the next: 0 while the bucket lasts. */
  note(ip: string, now: SteadyMs): number {
    const address = networkOf(ip)
    const fullAt = Math.max(this.#fullAt.get(address) ?? now, now) + intervalMs
    const overMs = fullAt - now - burst * intervalMs
    if (overMs > 0) return overMs
    this.#fullAt.delete(address)
    this.#fullAt.set(address, fullAt)
    if (this.#fullAt.size > remembered) this.#fullAt.delete(this.#fullAt.keys().next().value as string)
    return 0
  }
}

/** Whom an address stands for: with IPv6 everybody has a whole /64 to take addresses from. */
function networkOf(ip: string): string {
  if (!ip.includes(':') || ip.startsWith('::ffff:')) return ip
  const [head = '', tail] = ip.split('::')
  const groups = head.split(':')
  if (tail !== undefined) while (groups.length < 4) groups.push('0')
  return groups.slice(0, 4).join(':')
}
