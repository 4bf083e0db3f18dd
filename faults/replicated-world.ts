import { Replication } from '../test/store/replication.ts'
import { PostgresWorld } from './postgres-world.ts'

/** The programs of `PostgresWorld` on a primary and a synchronous standby, both of which their store names. */
export class ReplicatedWorld extends PostgresWorld {
  #replication: Replication | undefined

  get replication(): Replication {
    if (this.#replication === undefined) throw new Error('the servers have not been started')
    return this.#replication
  }

  override get store(): string {
    return this.replication.url
  }

  protected override get database(): string {
    return this.replication.primary.url
  }

  protected override async startDatabase(): Promise<void> {
    this.#replication = await Replication.start(true, this.folder)
    this.atEnd(() => this.replication.close())
  }
}
