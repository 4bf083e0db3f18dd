import { KeyMaker, nodes } from '../../domain/ids.ts'
import type { ServerTime } from './server-time.ts'
import type { Sessions, Statement } from './sessions.ts'
import { violatedKey } from './trouble.ts'

const takeNode: Statement = { name: 'take-node', text: `select nextval('node') as node` }

/**
 * Makes keys with a node number taken from the database. The numbers go round, so two processes may have the same one:
 * then a key can be taken, and the one that notices takes the next number.
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
      const maker = this.#maker ?? (await this.#takeNode())
      try {
        return await insert(() => maker.next(this.#time.now()))
      } catch (error) {
        if (tries > nodes || !violatedKey(error)?.endsWith('_pkey')) throw error
        if (this.#maker === maker) this.#maker = undefined
      }
    }
  }

  /** A key that may be taken. */
  async next(): Promise<number> {
    const maker = this.#maker ?? (await this.#takeNode())
    return maker.next(this.#time.now())
  }

  /** Makes the next keys with another node number, because a key was taken. */
  changeNode(): void {
    this.#maker = undefined
  }

  async #takeNode(): Promise<KeyMaker> {
    const [row] = await this.#sessions.run<{ node: number }>(takeNode)
    this.#maker ??= new KeyMaker(row?.node ?? 0)
    return this.#maker
  }
}
