import { KeyMaker, nodes } from '../../domain/ids.ts'
import type { ServerTime } from './database.ts'
import { postgresStatement, type Run, type Sessions } from './sessions.ts'
import { violatedKey } from './trouble.ts'

const takeNode = postgresStatement('take-node', `select nextval('node') as node`)

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
