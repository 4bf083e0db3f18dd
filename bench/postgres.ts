import pg from 'pg'
import { PostgresProcess } from '../test/store/postgres-process.ts'
import type { Bench } from './bench.ts'
import { processorUs } from './processor-time.ts'

// Every safety stays at its default (fsync, full_page_writes and synchronous_commit on). A raised setting only keeps a
// checkpoint from falling into one of two runs that are compared.
const settings = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  max_connections: '200',
}

const servers = new WeakMap<Bench, Promise<string>>()
const processes = new WeakMap<Bench, PostgresProcess>()

/** The processor time of the server's processes so far, in microseconds; not a number for the server in DATABASE_URL. */
export function postgresUs(bench: Bench): number {
  return processorUs(postgresPid(bench))
}

/** The first process of the server that was started for this run; 0 for the one in DATABASE_URL. */
export function postgresPid(bench: Bench): number {
  return processes.get(bench)?.pid ?? 0
}

/** Makes an empty database and answers its URL: on the server in DATABASE_URL, else on one started for this run. */
export async function createDatabase(bench: Bench, name: string): Promise<string> {
  const given = process.env.DATABASE_URL
  let server = servers.get(bench)
  if (!server) {
    server = given ? Promise.resolve(given) : startServer(bench)
    servers.set(bench, server)
  }
  const admin = await server
  const database = `sluice_bench_${process.pid}_${name}`
  await query(admin, `create database ${database}`)
  if (given) {
    bench.ends.defer(async () => {
      await query(admin, `drop database ${database} with (force)`)
    })
  }
  const url = new URL(admin)
  url.pathname = `/${database}`
  return url.href
}

/** Runs one statement on a connection of its own. */
export async function query(url: string, sql: string): Promise<pg.QueryResultRow[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

async function startServer(bench: Bench): Promise<string> {
  bench.note('starting Postgres')
  const server = await PostgresProcess.start(bench.dir, settings)
  processes.set(bench, server)
  bench.ends.defer(() => server.remove())
  return server.url
}
