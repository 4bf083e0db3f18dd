import pg from 'pg'
import type { StoreContext } from '../store.ts'
import { clientConfig } from './sessions.ts'
import { channel, type Signals } from './signals.ts'

const firstRetryMs = 100
const longestRetryMs = 5_000
/** A connection that hears nothing looks the same whether all is quiet or the other end is gone, so it asks. */
const askEveryMs = 10_000
const answerWithinMs = 5_000

/**
 * Keeps one connection listening for as long as it is open, and connects again whenever it is lost. After each
 * connecting it signals everything, because what was said meanwhile was not heard.
 */
export class Listener {
  readonly #url: string
  readonly #context: StoreContext
  readonly #signals: Signals
  #client: pg.Client | undefined
  #cancelTimer: (() => void) | undefined
  #retryMs = firstRetryMs
  #closed = false

  constructor(url: string, context: StoreContext, signals: Signals) {
    this.#url = url
    this.#context = context
    this.#signals = signals
    void this.#connect()
  }

  /** Stops listening. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancelTimer?.()
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => {})
  }

  async #connect(): Promise<void> {
    const client = new pg.Client({ ...clientConfig(this.#url), query_timeout: answerWithinMs })
    this.#client = client
    client.on('error', (error) => this.#lost(client, error))
    client.on('end', () => this.#lost(client, new Error('the server ended it')))
    client.on('notification', (message) => {
      if (message.channel === channel && message.payload) this.#signals.receive(message.payload)
    })
    try {
      await client.connect()
      await client.query(`listen ${channel}`)
    } catch (error) {
      this.#lost(client, error)
      return
    }
    if (this.#client !== client) return
    this.#retryMs = firstRetryMs
    this.#signals.everything()
    this.#askLater(client)
  }

  #askLater(client: pg.Client): void {
    this.#cancelTimer = this.#context.clock.after(askEveryMs, () => {
      client.query('select 1').then(
        () => this.#client === client && this.#askLater(client),
        (error) => this.#lost(client, error),
      )
    })
  }

  /** A loss is often reported more than once; only the first counts. */
  #lost(client: pg.Client, error: unknown): void {
    if (this.#client !== client) return
    this.#client = undefined
    client.end().catch(() => {})
    if (this.#closed) return
    const reason = error instanceof Error ? error.message : String(error)
    this.#context.log?.(`postgres: the listening connection was lost: ${reason}`)
    this.#cancelTimer?.()
    this.#cancelTimer = this.#context.clock.after(this.#retryMs * (0.5 + this.#context.random()), () => {
      void this.#connect()
    })
    this.#retryMs = Math.min(longestRetryMs, this.#retryMs * 2)
  }
}
