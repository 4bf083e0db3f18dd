import type { Clock, EpochMs } from '../../domain/clock.ts'
import type { StoreContext } from '../store.ts'
import type { Keys } from './keys.ts'
import type { LaneWakes } from './lane-wakes.ts'
import type { Sessions } from './sessions.ts'
import type { Signals } from './signals.ts'

/** The server's clock, in whole milliseconds, wherever a statement needs it. */
export const sqlNow = `(extract(epoch from clock_timestamp()) * 1000)::bigint`

/** Opens a statement with one reading of the server's clock, so that all of it has the same time. */
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

/** The parts that every method of the store works with. */
export interface Database {
  readonly context: StoreContext
  /** For changes that callers rely on: a commit waits for the disk. */
  readonly durable: Sessions
  /** For work that can be repeated: a commit does not wait, and a crash of the server may undo the last moments. */
  readonly relaxed: Sessions
  readonly time: ServerTime
  readonly keys: Keys
  readonly signals: Signals
  readonly wakes: LaneWakes
}
