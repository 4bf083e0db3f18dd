import type { Clock, EpochMs } from '../../domain/clock.ts'

/** The server's clock, in whole milliseconds, wherever a statement needs it. */
export const sqlNow = `(extract(epoch from clock_timestamp()) * 1000)::bigint`

/** Opens a statement with one reading of the server's clock, so that all of it agrees what time it is. */
export const withClock = `with clock as materialized (select ${sqlNow} as now)`

/**
 * The server's clock, near enough to make keys by: its last known reading plus the steady time since. Machines
 * with wrong clocks then still make keys in the order of publishing, and put them into the right day.
 */
export class ServerTime {
  readonly #clock: Clock
  #ahead: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#ahead = clock.now() - clock.steady()
  }

  /** Notes a reading of the server's clock that has just arrived. */
  learn(serverNow: EpochMs): void {
    this.#ahead = serverNow - this.#clock.steady()
  }

  now(): EpochMs {
    return Math.floor(this.#ahead + this.#clock.steady())
  }
}
