import { tmpdir } from 'node:os'
import pg from 'pg'
import { eventually } from '../e2e/eventually.ts'
import { PostgresProcess } from './postgres-process.ts'

const settings = {
  shared_buffers: '32MB',
  max_connections: '100',
  // A standby that was away finds what it missed.
  wal_keep_size: '256MB',
  autovacuum_naptime: '1h',
}

/** A primary and a standby that follows it by streaming replication: real servers of their own. */
export class Replication {
  readonly servers: PostgresProcess[]
  #primary: PostgresProcess
  #copies = 0

  private constructor(primary: PostgresProcess) {
    this.#primary = primary
    this.servers = [primary]
  }

  /** With `isSynchronous`, each commit waits until the standby has it. `prepare` makes databases first. */
  static async start(isSynchronous: boolean, more: Readonly<Record<string, string>> = {}): Promise<Replication> {
    const primary = await PostgresProcess.start(tmpdir(), { ...settings, ...more })
    const replication = new Replication(primary)
    await replication.addStandby(isSynchronous)
    return replication
  }

  get primary(): PostgresProcess {
    return this.#primary
  }

  get standby(): PostgresProcess {
    return this.servers.find((each) => each !== this.#primary) as PostgresProcess
  }

  /** One URL that names all servers. */
  get url(): string {
    return this.urlOf(this.servers)
  }

  urlOf(servers: readonly PostgresProcess[]): string {
    const [first] = servers
    const places = servers.map(({ url }) => new URL(url).host).join(',')
    const { username, password, pathname } = new URL((first as PostgresProcess).url)
    return `postgres://${username}:${password}@${places}${pathname}?target_session_attrs=read-write`
  }

  /** Makes a standby of the primary, and waits until it follows. */
  async addStandby(isSynchronous: boolean): Promise<PostgresProcess> {
    const name = `standby${++this.#copies}`
    const standby = await this.#primary.makeStandby(tmpdir(), name, settings)
    await standby.start()
    this.servers.push(standby)
    await this.query(this.#primary, `alter system set synchronous_standby_names = '${isSynchronous ? '*' : ''}'`)
    await this.query(this.#primary, 'select pg_reload_conf()')
    const state = isSynchronous ? 'sync' : 'async'
    await eventually('the standby follows', async () => {
      const rows = await this.query(this.#primary, 'select sync_state from pg_stat_replication')
      return rows.some(({ sync_state }) => sync_state === state)
    })
    return standby
  }

  /** Ends the primary within a moment, and has the standby take its place. Answers when it does. */
  async failOver(): Promise<void> {
    await this.#primary.kill()
    await this.promote()
  }

  /** Has the standby take the place of the primary, whatever that does meanwhile. */
  async promote(): Promise<void> {
    const next = this.standby
    await this.query(next, 'select pg_promote(true, 60)')
    this.#primary = next
  }

  async query(server: PostgresProcess, sql: string): Promise<Record<string, unknown>[]> {
    const client = new pg.Client(server.url)
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query(sql)).rows
    } finally {
      await client.end()
    }
  }

  async close(): Promise<void> {
    for (const server of this.servers) {
      // A server that stands still ends in no other way.
      await server.kill()
      await server.remove()
    }
  }
}
