import type { Clock, EpochMs } from '../../domain/clock.ts'
import { KeyMaker, nodes } from '../../domain/ids.ts'
import type { StoreContext } from '../store.ts'
import type { LaneWakes } from './lane-wakes.ts'
import type { Presence } from './presence.ts'
import type { Servers } from './servers.ts'
import { postgresStatement, type Run, type Sessions } from './sessions.ts'
import type { Signals } from './signals.ts'
import { violatedKey } from './trouble.ts'

/** The server's clock, in whole milliseconds, wherever a statement needs it. */
export const sqlNow = `(extract(epoch from clock_timestamp()) * 1000)::bigint`

/** Opens a statement with one reading of the server's clock, so that all of it has the same time. */
export const withClock = `with clock as materialized (select ${sqlNow} as now)`

/**
 * Whether a value is among those that a query finds: a lookup in a hash table, which is made once. A plain `in`, or an `exists`,
 * becomes a join, which visits all pairs of rows, because hash joins are switched off; `is true` keeps the planner from that.
 */
export function isAmong(value: string, query: string): string {
  return `(${value} in (${query})) is true`
}

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
  readonly servers: Servers
  /** For changes that callers rely on: a commit waits for the disk. */
  readonly durable: Sessions
  /** For work that can be repeated: a commit does not wait, and a crash of the server may undo the last moments. */
  readonly relaxed: Sessions
  readonly time: ServerTime
  readonly keys: Keys
  readonly signals: Signals
  readonly wakes: LaneWakes
  readonly presence: Presence
}

const takeNode = postgresStatement('take-node')`select nextval('node') as node`

/**
 * Makes keys with a node number taken from the database. The numbers go round, so two processes may have the same one:
 * then a key can be taken, and the process that notices takes the next number.
 */
export class Keys {
  readonly #sessions: Sessions
  readonly #time: ServerTime
  #maker: KeyMaker | undefined

  constructor(sessions: Sessions, time: ServerTime) {
    this.#sessions = sessions
    this.#time = time
  }

  /** Runs `insert`, with another node number when it meets a key that is taken. Only a `*_pkey` violation counts. */
  async make<T>(insert: (next: () => number) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      const maker = this.#maker ?? (await this.#takeNode(this.#sessions.run))
      try {
        return await insert(() => maker.next(this.#time.now()))
      } catch (error) {
        if (tries > nodes || !violatedKey(error)?.endsWith('_pkey')) throw error
        if (this.#maker === maker) this.#maker = undefined
      }
    }
  }

  /**
   * A key that may be taken. `run` is the caller's: inside a transaction, another connection of the same pool may never
   * become free.
   */
  async next(run: Run): Promise<number> {
    const maker = this.#maker ?? (await this.#takeNode(run))
    return maker.next(this.#time.now())
  }

  /** Makes the next keys with another node number, because a key was taken. */
  changeNode(): void {
    this.#maker = undefined
  }

  async #takeNode(run: Run): Promise<KeyMaker> {
    const [row] = await run<{ node: number }>(takeNode)
    this.#maker ??= new KeyMaker(row?.node ?? 0)
    return this.#maker
  }
}
