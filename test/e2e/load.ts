import type { TestContext } from 'node:test'
import { atEnd } from './at-end.ts'
import type { Client } from './client.ts'
import type { Ledger } from './ledger.ts'

/** Publishes from a few connections, each event a little after the last, until stopped or until the test ends. */
export class Load {
  readonly #producers: Promise<void>[]
  #isOn = true

  constructor(t: TestContext, ledger: Ledger, client: Client, app: string, gapMs = 20) {
    atEnd(t, () => this.stop())
    this.#producers = Array.from({ length: 2 }, async () => {
      while (this.#isOn) {
        await ledger.publish(client, app)
        await new Promise((resolve) => setTimeout(resolve, gapMs))
      }
    })
  }

  /** Resolves when the outcome of the last event is known. */
  async stop(): Promise<void> {
    this.#isOn = false
    await Promise.all(this.#producers)
  }
}
