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
  readonly #parent: string
  #primary: PostgresProcess
  #copies = 0

  private constructor(primary: PostgresProcess, parent: string) {
    this.#primary = primary
    this.#parent = parent
    this.servers = [primary]
  }

  /** With `isSynchronous`, each commit waits until the standby has it. The files of the servers are below `parent`. */
  static async start(isSynchronous: boolean, parent = tmpdir()): Promise<Replication> {
    const primary = await PostgresProcess.start(parent, settings)
    const replication = new Replication(primary, parent)
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

  /** Makes a standby of the primary, at this port or at a free one, and waits until it follows. */
  async addStandby(isSynchronous: boolean, port?: number): Promise<PostgresProcess> {
    const name = `standby${++this.#copies}`
    const standby = await this.#primary.makeStandby(this.#parent, name, settings, port)
    await standby.start()
    this.servers.push(standby)
    await this.#awaitStandbys(isSynchronous ? '*' : '')
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

  /** No commit waits for the standby any more. */
  waitForNoStandby(): Promise<void> {
    return this.#awaitStandbys('')
  }

  async #awaitStandbys(names: string): Promise<void> {
    await this.query(this.#primary, `alter system set synchronous_standby_names = '${names}'`)
    await this.query(this.#primary, 'select pg_reload_conf()')
  }

  /** Replaces a former primary by a standby of its successor, at the same address. */
  async replaceFormer(former: PostgresProcess, isSynchronous: boolean): Promise<void> {
    await former.remove()
    this.servers.splice(this.servers.indexOf(former), 1)
    await this.addStandby(isSynchronous, Number(new URL(former.url).port))
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
