import { after } from 'node:test'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemRandom, systemRandomText } from '../../src/runtime/random.ts'
import { openPostgresStore } from '../../src/store/postgres/open.ts'
import { Servers } from '../../src/store/postgres/servers.ts'
import type { Store, StoreContext, Watcher } from '../../src/store/store.ts'
import { databaseTemplateVariable } from '../prepared.ts'
import type { Foreign, Harness } from './conformance/harness.ts'
import { openPostgresServer, type PostgresServer, startPostgresServer } from './postgres-server.ts'
import { testVault } from './test-vault.ts'

/** The machine's own clock: Postgres decides by its server's, which no test can turn. */
export const context: StoreContext = {
  clock: systemClock,
  random: systemRandom,
  randomText: systemRandomText,
  vault: testVault,
}

/** The server at a URL, or the one of several that takes writes. */
export function serversAt(url: string): Servers {
  return new Servers({ url, clock: systemClock })
}

let shared: Promise<PostgresServer> | undefined
let template: Promise<string> | undefined
let isOwn = false

/**
 * The server of this test process: the one that all files share when the whole suite runs, else one that is started on
 * first use and closed when the last test has ended.
 */
export function sharedServer(): Promise<PostgresServer> {
  shared ??= openPostgresServer()
  return shared
}

/** Gives this test process a server of its own, which it may stop and change. Call it before any test runs. */
export function useOwnServer(): void {
  const given = process.env.DATABASE_URL ?? ''
  if (given !== '') return
  shared = startPostgresServer()
  isOwn = true
}

const beforeEnd: (() => Promise<void>)[] = []

after(async () => {
  await Promise.all(beforeEnd.map((end) => end()))
  await (await shared)?.close()
})

/** The URL of a new database with all tables: a copy (40 ms) of one that the run, or else this process, migrated once. */
export async function newDatabase(): Promise<string> {
  const server = await sharedServer()
  template ??= makeTemplate(server)
  return server.createDatabase(await template)
}

async function makeTemplate(server: PostgresServer): Promise<string> {
  const given = isOwn ? undefined : process.env[databaseTemplateVariable]
  if (given !== undefined) return given
  const url = await server.createDatabase()
  const store = await openPostgresStore(context, { url })
  await store.close()
  return url
}

const countBusy = `
  select count(*)::integer as busy from pg_stat_activity
   where datname = current_database() and application_name = 'sluice' and state = 'active'`

/** Waits until the server has answered all it was asked, however slow the machine: lanes are woken in the background. */
async function quiet(server: PostgresServer, url: string): Promise<void> {
  for (let looks = 0; looks < 200; looks++) {
    const { rows } = await server.query(countBusy, url)
    if (rows[0].busy === 0) return
  }
}

/** Emptied ones are used again: a copy of a database is 10 MB to write, and a store opens four connections and more. */
const emptied: { readonly url: string; readonly store: Store }[] = []

async function openEmpty(prepare?: (url: string) => Promise<void>): Promise<(typeof emptied)[number]> {
  const url = await newDatabase()
  await prepare?.(url)
  const store = await openPostgresStore(context, { url })
  beforeEnd.push(() => store.close())
  return { url, store }
}

/** The key that seals secrets stays. The management application stays, and what a store remembers of it is outdated. */
const selectEmptying = `
  select string_agg('delete from ' || relname, ';') || ' where key > 0; update application set version = version + 1' as text
    from (select relname from pg_class
           where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition
             and relname not in ('migration', 'sealing_key')
           order by relname = 'application') as emptied`
let emptying: Promise<string> | undefined

async function empty(server: PostgresServer, url: string): Promise<void> {
  emptying ??= server.query(selectEmptying, url).then(({ rows }) => rows[0].text as string)
  await server.query(await emptying, url)
}

const deaf: Watcher = { rows() {}, lanes() {}, settings() {} }

/**
 * A store on a new database, for tests that add tables, or see what a store remembers. The database may be prepared before the
 * store connects to it.
 */
export async function openNewPostgresHarness(
  prepare?: (url: string) => Promise<void>,
): Promise<Harness & { readonly url: string }> {
  const { url, store } = await openEmpty(prepare)
  return harnessOf(await sharedServer(), url, store, () => store.close())
}

/** A store on an empty database. */
export async function openPostgresHarness(): Promise<Harness & { readonly url: string }> {
  const server = await sharedServer()
  const { url, store } = emptied.pop() ?? (await openEmpty())
  let isClosed = false
  const close = () => {
    isClosed = true
    return store.close()
  }
  return harnessOf(server, url, { ...store, close }, async () => {
    if (isClosed) return
    store.watch(deaf)
    await quiet(server, url)
    await empty(server, url)
    emptied.push({ url, store })
  })
}

function harnessOf(
  server: PostgresServer,
  url: string,
  store: Store,
  close: () => Promise<void>,
): Harness & { readonly url: string } {
  return {
    store,
    url,
    async pass(ms) {
      await new Promise<void>((resolve) => void systemClock.after(ms, resolve))
      await quiet(server, url)
    },
    sql: async (text) => void (await server.query(text, url)),
    foreign: () => foreignTo(server, url),
    elsewhere: async () => foreignTo(server, await newDatabase()),
    close,
  }
}

async function foreignTo(server: PostgresServer, url: string): Promise<Foreign> {
  const client = await server.session(url)
  return {
    connection: client,
    run: async (sql) => void (await client.query(sql)),
    rows: async (sql) => (await client.query(sql)).rows,
    close: () => client.end(),
  }
}
