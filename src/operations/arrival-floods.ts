import type { Clock, SteadyMs } from '../domain/clock.ts'
import { KeyedRate, networkOf } from './keyed-rate.ts'

/** How long an address that sent a genuine request is let through while others flood the source. */
const trustedForMs = 3_600_000
/** Addresses of each source, and sources. The owner of one source cannot have those of another forgotten. */
const trustedAddresses = 128
const trustingSources = 2048
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
  /** Until when a network is trusted, by source; the oldest first. */
  readonly #trusted = new Map<number, Map<string, SteadyMs>>()

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
    const ofAddress = this.#ofAddress.waitMs(nameOf(source, address), now)
    const trustedUntil = this.#trusted.get(source)?.get(networkOf(address)) ?? 0
    if (ofAddress > 0 || trustedUntil > now) return ofAddress
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
    const networks = this.#trusted.get(source) ?? new Map<string, SteadyMs>()
    putLast(networks, networkOf(address), this.#clock.steady() + trustedForMs, trustedAddresses)
    putLast(this.#trusted, source, networks, trustingSources)
  }
}

/** Puts an entry at the end of a map, and takes the first away when there are too many. */
function putLast<K, V>(map: Map<K, V>, key: K, value: V, atMost: number): void {
  map.delete(key)
  map.set(key, value)
  if (map.size > atMost) map.delete(map.keys().next().value as K)
}

function nameOf(source: number, address: string): string {
  return `${source} ${networkOf(address)}`
}
