import type { SteadyMs } from '../domain/clock.ts'
import { KeyedRate } from './keyed-rate.ts'

/** Failures of one address that may come at once, and how long it takes until one more may. */
const burst = 20
const intervalMs = 3000

/**
 * Counts failed authentication per address: a token bucket each, for the addresses that failed last. Only failures are
 * asked about, so whoever has a right key is never kept out by others behind the same address.
 */
export class FailureLimit {
  readonly #rate = new KeyedRate(burst, intervalMs)

  /** Notes a failure. The answer is how long to wait before the next: 0 while the bucket lasts. */
  note(ip: string, now: SteadyMs): number {
    return this.#rate.take(networkOf(ip), now)
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
