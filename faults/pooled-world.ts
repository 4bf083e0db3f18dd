import { pgbouncerVersion, startPgBouncer } from '../test/store/pgbouncer.ts'
import { TransactionPooler } from '../test/store/transaction-pooler.ts'
import { PostgresWorld } from './postgres-world.ts'

interface Pooler {
  readonly url: string
  close(): Promise<void>
}

const poolSize = 8

/**
 * The programs of `PostgresWorld` behind a pooler in transaction mode: PgBouncer where it is installed, else the one of the
 * tests. The worker has a connection to the server itself beside it.
 */
export class PooledWorld extends PostgresWorld {
  #pooler: Pooler | undefined

  override get store(): string {
    if (this.#pooler === undefined) throw new Error('the pooler has not been started')
    return this.#pooler.url
  }

  protected override get database(): string {
    return this.postgres.url
  }

  protected override settingsOf(command: 'serve' | 'worker'): Readonly<Record<string, string>> {
    return command === 'worker' ? { SLUICE_STORE_DIRECT: this.postgres.url } : {}
  }

  protected override async startDatabase(): Promise<void> {
    await super.startDatabase()
    await this.#startPooler()
    this.atEnd(() => this.#pooler?.close())
  }

  /** Ends the pooler in the middle of whatever it does, and starts it again at the same address. */
  async restartPooler(meanwhile: () => Promise<void>): Promise<void> {
    const port = Number(new URL(this.store).port)
    await this.#pooler?.close()
    await meanwhile()
    await this.#startPooler(port)
  }

  async #startPooler(port?: number): Promise<void> {
    this.#pooler =
      pgbouncerVersion === undefined
        ? await TransactionPooler.start(this.postgres.url, poolSize, port)
        : await startPgBouncer(
            this.postgres.url,
            { pool_mode: 'transaction', default_pool_size: String(poolSize) },
            port,
          )
  }
}
