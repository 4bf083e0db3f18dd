import type { Clock, SteadyMs } from '../domain/clock.ts'
import { KeyedRate, networkOf } from './keyed-rate.ts'

/** How long an address that sent a genuine request is let through while others flood the source, and how many are. */
const trustedForMs = 3_600_000
const trustedLimit = 10_000
/** Addresses that it takes to close a source to strangers. */
const addressesToClose = 10

/**
 * Counts refused arrivals: of each address at each source, and of each source. A source that is flooded is closed to
 * addresses that never sent a genuine request there. One address alone cannot close a source, because it counts for the
 * source only as far as its own bucket lasts.
 */
export class ArrivalFloods {
  readonly #clock: Pick<Clock, 'steady'>
  readonly #ofAddress: KeyedRate
  readonly #ofSource: KeyedRate
  /** Addresses by source and network, and until when they are trusted; the oldest first. */
  readonly #trusted = new Map<string, SteadyMs>()

  /** `refusedArrivals` a minute from one address at one source; ten times as many from all addresses. */
  constructor(clock: Pick<Clock, 'steady'>, refusedArrivals: number) {
    this.#clock = clock
    const perMinute = Math.max(1, refusedArrivals)
    this.#ofAddress = new KeyedRate(perMinute, 60_000 / perMinute)
    this.#ofSource = new KeyedRate(addressesToClose * perMinute, 60_000 / (addressesToClose * perMinute))
  }

  /** How long an address has to wait before the source looks at a request of it; 0 for not at all. */
  waitMs(source: number, address: string): number {
    const now = this.#clock.steady()
    const name = nameOf(source, address)
    const ofAddress = this.#ofAddress.waitMs(name, now)
    if (ofAddress > 0 || (this.#trusted.get(name) ?? 0) > now) return ofAddress
    return this.#ofSource.waitMs(String(source), now)
  }

  /** Counts a refused request, by the tokens that it costs. */
  refused(source: number, address: string, tokens: number): void {
    const now = this.#clock.steady()
    const paid = this.#ofAddress.charge(nameOf(source, address), now, tokens)
    if (paid > 0) this.#ofSource.charge(String(source), now, paid)
  }

  /** Lets an address through that sent a genuine request, while others flood the source. */
  trust(source: number, address: string): void {
    const name = nameOf(source, address)
    this.#trusted.delete(name)
    this.#trusted.set(name, this.#clock.steady() + trustedForMs)
    if (this.#trusted.size > trustedLimit) this.#trusted.delete(this.#trusted.keys().next().value as string)
  }
}

function nameOf(source: number, address: string): string {
  return `${source} ${networkOf(address)}`
}
