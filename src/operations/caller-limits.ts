import type { Clock, SteadyMs } from '../domain/clock.ts'
import { networkOf } from '../wire/network.ts'

const rememberedKeys = 10_000

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
    putLast(this.#fullAt, key, fullAt, rememberedKeys)
  }
}

/** Failures of one address that may come at once, and how long it takes until one more may. */
const failuresAtOnce = 20
const failureMs = 3000

/**
 * Counts failed authentication per address: a token bucket each, for the addresses that failed last. Only failures are
 * asked about, so a caller with a right key is never refused for the failures of others behind the same address.
 */
export class FailureLimit {
  readonly #rate = new KeyedRate(failuresAtOnce, failureMs)

  /** Notes a failure. The answer is how long to wait before the next: 0 while the bucket lasts. */
  note(ip: string, now: SteadyMs): number {
    return this.#rate.take(networkOf(ip), now)
  }
}

/** Does the work of each caller one piece after the other. Pieces of different callers do not wait for each other. */
export class OneByOne {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Does the work once all earlier work under the same key has ended, well or not. */
  do<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key)
    const mine = before === undefined ? work() : before.then(work, work)
    this.#last.set(key, mine)
    const forget = () => {
      if (this.#last.get(key) === mine) this.#last.delete(key)
    }
    void mine.then(forget, forget)
    return mine
  }

  /** Keys with work under way. */
  get size(): number {
    return this.#last.size
  }
}

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
export function putLast<K, V>(map: Map<K, V>, key: K, value: V, atMost: number): void {
  map.delete(key)
  map.set(key, value)
  if (map.size > atMost) map.delete(map.keys().next().value as K)
}

function nameOf(source: number, address: string): string {
  return `${source} ${networkOf(address)}`
}
