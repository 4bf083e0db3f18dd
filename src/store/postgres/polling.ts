import type { StoreContext } from '../store.ts'
import type { Signals } from './signals.ts'

/** How late a process is that does not hear of the changes of others. */
const pollMs = 1000

/**
 * In place of a connection that listens, where there is none: a pooler passes no notifications on. Anything may have happened
 * since the last look, so each looks at everything that this process has in memory.
 */
export class Poller {
  readonly #context: StoreContext
  readonly #signals: Signals
  #cancel: (() => void) | undefined

  constructor(context: StoreContext, signals: Signals) {
    this.#context = context
    this.#signals = signals
  }

  async open(): Promise<void> {
    this.#cancel = this.#context.clock.after(pollMs, () => {
      this.#signals.everything()
      this.#signals.tasks()
      void this.open()
    })
  }

  async close(): Promise<void> {
    this.#cancel?.()
  }
}
