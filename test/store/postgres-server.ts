import { tmpdir } from 'node:os'
import pg from 'pg'
import { PostgresProcess } from './postgres-process.ts'

/** A real Postgres server for tests and measurements, durable like one in production. */
export interface PostgresServer {
  /** The maintenance database. */
  readonly url: string
  /** Makes an empty database, or a copy of another one without connections; the answer is its URL. */
  createDatabase(template?: string): Promise<string>
  /** Runs SQL as superuser, outside any transaction, on the maintenance database or the one at `url`. */
  query(sql: string, url?: string): Promise<pg.QueryResult>
  /** A connection of one's own, to hold a transaction open. */
  session(url: string): Promise<pg.Client>
  /** Stops the server as an operator would, or as a crash would; `start` brings it back with what was committed. */
  stop(how?: 'in order' | 'at once'): Promise<void>
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
  const server = await PostgresProcess.start(tmpdir(), {
    shared_buffers: '64MB',
    max_connections: '400',
    // Cleaning a hundred databases every minute takes more than it saves in a few minutes.
    autovacuum_naptime: '1h',
  })
  return serverAt(server.url, () => server.remove(), server)
}

async function serverAt(
  url: string,
  end: () => Promise<void>,
  own: PostgresProcess | undefined,
): Promise<PostgresServer> {
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
    stop: (how = 'in order') => own?.stop(how) ?? cannotRestart(),
    start: () => own?.start() ?? cannotRestart(),
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
