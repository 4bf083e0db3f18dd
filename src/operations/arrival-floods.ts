import type { Clock, SteadyMs } from '../domain/clock.ts'
import { KeyedRate, networkOf } from './keyed-rate.ts'

/** How long an address is trusted after a genuine request. */
const trustedForMs = 7 * 86_400_000
/** Addresses of each source, and sources. The owner of one source cannot have those of another forgotten. */
const trustedAddresses = 128
const trustingSources = 2048
/** A trusted address may send so many times as many refused requests: providers send for all their customers from it. */
const trustedTimes = 20
/** Addresses that it takes to close a source to strangers. */
const addressesToClose = 10

/**
 * Counts refused arrivals: of each address at each source, and of each source. A source that is flooded is closed to
 * addresses that never sent a genuine request there. One address alone cannot close a source, because it counts for the
 * source only as far as its own bucket lasts.
 *
 * An address that sent a genuine request is trusted: it has a much larger bucket, and counts for no other. An account at
 * GitHub is enough to have GitHub send requests to any URL, and these come from the addresses of the genuine ones.
 */
export class ArrivalFloods {
  readonly #clock: Pick<Clock, 'steady'>
  readonly #ofAddress: KeyedRate
  readonly #ofTrusted: KeyedRate
  readonly #ofSource: KeyedRate
  /** Until when a network is trusted, by source; the oldest first. */
  readonly #trusted = new Map<number, Map<string, SteadyMs>>()

  /** `refusedArrivals` a minute from one address at one source; ten times as many from all addresses. */
  constructor(clock: Pick<Clock, 'steady'>, refusedArrivals: number) {
    this.#clock = clock
    const perMinute = Math.max(1, refusedArrivals)
    this.#ofAddress = rateOf(perMinute)
    this.#ofTrusted = rateOf(trustedTimes * perMinute)
    this.#ofSource = rateOf(addressesToClose * perMinute)
  }

  /** How long an address has to wait before the source looks at a request of it; 0 for not at all. */
  waitMs(source: number, address: string): number {
    const now = this.#clock.steady()
    const name = nameOf(source, address)
    if (this.#isTrusted(source, address, now)) return this.#ofTrusted.waitMs(name, now)
    return Math.max(this.#ofAddress.waitMs(name, now), this.#ofSource.waitMs(String(source), now))
  }

  /** Counts a refused request, by the tokens that it costs. */
  refused(source: number, address: string, tokens: number): void {
    const now = this.#clock.steady()
    const name = nameOf(source, address)
    if (this.#isTrusted(source, address, now)) {
      this.#ofTrusted.charge(name, now, tokens)
      return
    }
    const paid = this.#ofAddress.charge(name, now, tokens)
    if (paid > 0) this.#ofSource.charge(String(source), now, paid)
  }

  /** Trusts an address that sent a genuine request. */
  trust(source: number, address: string): void {
    const networks = this.#trusted.get(source) ?? new Map<string, SteadyMs>()
    putLast(networks, networkOf(address), this.#clock.steady() + trustedForMs, trustedAddresses)
    putLast(this.#trusted, source, networks, trustingSources)
  }

  #isTrusted(source: number, address: string, now: SteadyMs): boolean {
    return (this.#trusted.get(source)?.get(networkOf(address)) ?? 0) > now
  }
}

function rateOf(perMinute: number): KeyedRate {
  return new KeyedRate(perMinute, 60_000 / perMinute)
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
