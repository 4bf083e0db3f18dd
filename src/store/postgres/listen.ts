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
 * Keeps one connection listening for as long as it is open, and connects again whenever it is lost. It then signals
 * everything, because it missed the notifications in between.
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
  }

  /** Connects for the first time; rejects when that fails. Later losses it repairs by itself. */
  async open(): Promise<void> {
    const client = this.#newClient()
    try {
      await listen(client)
    } catch (error) {
      await client.end().catch(() => {})
      throw error
    }
    this.#use(client)
  }

  /** Stops listening. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancelTimer?.()
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => {})
  }

  #newClient(): pg.Client {
    const client = new pg.Client({ ...clientConfig(this.#url), query_timeout: answerWithinMs })
    // Unheard, the event would end the process.
    client.on('error', (error) => this.#lost(client, error))
    client.on('end', () => this.#lost(client, new Error('it was ended')))
    client.on('notification', (message) => {
      if (message.channel === channel && message.payload) this.#signals.receive(message.payload)
    })
    return client
  }

  #use(client: pg.Client): void {
    this.#client = client
    this.#retryMs = firstRetryMs
    this.#askLater(client)
  }

  async #reconnect(): Promise<void> {
    const client = this.#newClient()
    try {
      await listen(client)
    } catch {
      // The server is still out of reach. Its loss was logged, and its return will be.
      client.end().catch(() => {})
      this.#retryLater()
      return
    }
    if (this.#closed) {
      client.end().catch(() => {})
      return
    }
    this.#use(client)
    this.#signals.everything()
  }

  #retryLater(): void {
    if (this.#closed) return
    const waitMs = this.#retryMs * (0.5 + this.#context.random())
    this.#retryMs = Math.min(longestRetryMs, this.#retryMs * 2)
    this.#cancelTimer = this.#context.clock.after(waitMs, () => void this.#reconnect())
  }

  #askLater(client: pg.Client): void {
    this.#cancelTimer = this.#context.clock.after(askEveryMs, async () => {
      try {
        await client.query('select 1')
        if (this.#client === client) this.#askLater(client)
      } catch (error) {
        this.#lost(client, error as Error)
      }
    })
  }

  /** A loss is often reported more than once, and may be that of a connection never used; only the first counts. */
  #lost(client: pg.Client, error: Error): void {
    if (this.#client !== client) return
    this.#client = undefined
    this.#cancelTimer?.()
    client.end().catch(() => {})
    this.#context.onTrouble?.(`postgres: the listening connection was lost: ${error.message}`)
    this.#retryLater()
  }
}

async function listen(client: pg.Client): Promise<void> {
  await client.connect()
  await client.query(`listen ${channel}`)
}
