import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { PostgresProcess } from '../test/store/postgres-process.ts'
import type { Unsynced } from './power-cut.ts'
import { Shim } from './shim.ts'
import { type Workshop, World, type WorldOptions } from './world.ts'

/** One `sluice serve` and one `sluice worker` on a Postgres server of their own. The shim stands before the server's disk. */
export class PostgresWorld extends World {
  readonly kind = 'postgres'
  /** Moves the clock of the programs, while `shim` moves that of the server. */
  readonly programShim: Shim | undefined
  #postgres: PostgresProcess | undefined

  constructor(workshop: Workshop, options: WorldOptions) {
    super(workshop, options)
    const place = join(this.folder, 'programs')
    mkdirSync(place)
    this.programShim = workshop.shim === undefined ? undefined : new Shim(workshop.shim, place, place)
  }

  protected override tracedFolder(disk: string): string {
    return join(disk, 'data')
  }

  override get store(): string {
    return this.postgres.url
  }

  get postgres(): PostgresProcess {
    if (this.#postgres === undefined) throw new Error('Postgres has not been started')
    return this.#postgres
  }

  protected override programVariables(): Readonly<Record<string, string>> {
    return this.programShim?.variables ?? {}
  }

  /** The server that takes writes now. */
  protected get database(): string {
    return this.postgres.url
  }

  override async open(): Promise<void> {
    // Postgres may run as another user.
    chmodSync(this.folder, 0o711)
    await this.startDatabase()
    await this.start('serve')
    await this.start('worker')
  }

  /** Starts everything that the programs need. */
  protected async startDatabase(): Promise<void> {
    const settings = {
      ...{ shared_buffers: '32MB', max_connections: '100', max_wal_size: '64MB', min_wal_size: '32MB' },
      // One call in place of a sync of each of its 1,000 files at each recovery.
      recovery_init_sync_method: 'syncfs',
    }
    this.#postgres = await PostgresProcess.make(join(this.folder, 'disk'), settings, {
      variables: this.shim?.variables ?? {},
    })
    this.atEnd(() => this.postgres.kill())
    this.lookBefore(this.postgres.data.folder)
    await this.postgres.start()
  }

  override async pending(): Promise<number> {
    const [row] = await this.#ask('select count(*) as pending from pending')
    return Number(row?.pending)
  }

  override async damage(): Promise<string | undefined> {
    const tables = await this.#ask(
      "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace",
    )
    // Each page is read, and its checksum compared.
    for (const { relname } of tables)
      await this.#ask(`select count(*) from "${relname}" as each where each is not null`)
    return undefined
  }

  /** Ends the server, leaves on its disk what a power cut does, and starts it again. The programs live on. */
  async cut(unsynced: Unsynced): Promise<Record<string, number>> {
    await this.postgres.kill()
    const { folder, uid, gid } = this.postgres.data
    const next = join(this.folder, 'next')
    const cut = this.image(this.trace(), unsynced, next)
    rmSync(folder, { recursive: true })
    renameSync(next, folder)
    // Names a process that is gone, and whose number another one may have.
    rmSync(join(folder, 'postmaster.pid'), { force: true })
    chmodSync(folder, 0o700)
    if (uid !== undefined) execFileSync('chown', ['-R', `${uid}:${gid}`, folder])
    this.lookBefore(folder)
    await this.postgres.start()
    return { ...cut }
  }

  async #ask(sql: string): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: this.database })
    client.on('error', () => {})
    try {
      await client.connect()
      return (await client.query(sql)).rows
    } finally {
      await client.end()
    }
  }
}
