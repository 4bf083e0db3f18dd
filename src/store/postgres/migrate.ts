import type pg from 'pg'
import {
  assertReleased,
  knownMigrations,
  type Migration,
  missingFrom,
  newerNotice,
  planFor,
  type Schema,
  type Step,
  worksSince,
} from '../migrations.ts'
import { locks } from '../sql/dialect.ts'
import { assertNoMove } from './moving.ts'
import type { Servers } from './servers.ts'
import { standingOf } from './succession.ts'
import { explain } from './trouble.ts'

const createMigrationTable = `
  create table if not exists migration (
    version integer primary key,
    name text not null,
    applied_at bigint not null,
    works_since integer -- null: only programs that know this migration work behind it
  )`

const selectFirst = 'select name from migration where version = 1'
const selectSchema = `
  select coalesce(max(version), 0) as version, coalesce(max(coalesce(works_since, version)), 0) as "worksSince"
    from migration`
const insertMigration = `
  insert into migration (version, name, applied_at, works_since)
  values ($1, $2, (extract(epoch from clock_timestamp()) * 1000)::bigint, $3)`

/**
 * Brings the database to the newest version, one transaction per migration. Safe when several processes do it at once:
 * each looks again once it holds the lock. Throws, and changes nothing, while processes run that would not survive it. The answer is a line for the log when the database is newer than the program.
 */
export async function migrate(
  servers: Servers,
  migrations: readonly Migration[] = knownMigrations('postgres'),
  isMoving = false,
): Promise<string | undefined> {
  return withClient(servers, async (client) => {
    servers.admit(client, await standingOf(client))
    if (!isMoving) await assertNoMove(client)
    await assertNoneBreaks(client, migrations)
    for (;;) {
      // Read again after each: a newer program may have migrated beyond what this one survives meanwhile.
      const schema = await schemaOf(client)
      const [next] = missingFrom(migrations, schema)
      if (next === undefined) return newerNotice(migrations, schema)
      await apply(client, next)
    }
  })
}

/** The schema of the database, which is only read. */
export async function readSchema(servers: Servers): Promise<Schema> {
  try {
    return await withClient(servers, schemaOf)
  } catch (error) {
    throw explain(error)
  }
}

/** Works on a connection of its own, without the time limit on answers: a migration takes as long as it takes. */
async function withClient<T>(servers: Servers, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await servers.connect(async () => {
    const made = servers.newClient({ query_timeout: 0 })
    made.on('error', () => {})
    await made.connect()
    return made
  })
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/**
 * Each statement of other sessions waits behind a migration that waits for its lock. So it waits shortly, and tries again
 * after a while in which the others go on.
 */
const waitShortly = `set local lock_timeout = '1s'`
const letOthersGoOn = 'select pg_sleep(2)'
const tries = 100
const lockNotAvailable = '55P03'

async function apply(client: pg.Client, migration: Migration): Promise<void> {
  for (let left = tries; ; left--) {
    try {
      return await applyAtOnce(client, migration)
    } catch (error) {
      if ((error as { code?: string }).code !== lockNotAvailable) throw error
      await client.query('rollback')
      if (left === 1) throw new Error(inUse(migration), { cause: error })
      await client.query(letOthersGoOn)
    }
  }
}

function inUse({ version, name }: Migration): string {
  return `Migration ${version} (${name}) found its tables locked for five minutes. End the long transactions of other sessions, such as a dump, and start again.`
}

/** A failure ends the connection and with it the transaction. */
async function applyAtOnce(client: pg.Client, migration: Migration): Promise<void> {
  await client.query('begin')
  await client.query('select pg_advisory_xact_lock($1)', [locks.migrate])
  // It also makes this session see what the process that had the lock before has made.
  await client.query(createMigrationTable)
  if ((await appliedTo(client)).version < migration.version) {
    await client.query(waitShortly)
    await client.query(migration.sql)
    await client.query(insertMigration, [migration.version, migration.name, worksSince(migration)])
  }
  await client.query('commit')
}

const selectRunning = `
  select description from worker
   where ended_at is null and lease_until > (extract(epoch from clock_timestamp()) * 1000)::bigint
   order by id limit 5`

/**
 * Throws while processes run that one of the migrations would break. A process that was killed counts until its lease ends.
 * All migrations are judged before the first one runs: the processes need not know a schema that was just made.
 */
async function assertNoneBreaks(client: pg.Client, migrations: readonly Migration[]): Promise<void> {
  for (;;) {
    const { schema, steps } = planFor(migrations, await schemaOf(client))
    const unsafe = steps.find(({ isSafe }) => !isSafe)
    if (unsafe === undefined || !(await hasTable(client, 'worker'))) return
    const { rows } = await client.query<{ description: string }>(selectRunning)
    if (rows.length === 0) return
    // Unless another process of this version migrated meanwhile, and runs.
    if ((await schemaOf(client)).version === schema.version) throw new Error(stopFirst(unsafe, rows))
  }
}

function stopFirst({ version, name }: Step, running: readonly { readonly description: string }[]): string {
  const named = running.map(({ description }) => description).join(', ')
  return (
    `migration ${version} (${name}) takes away what running processes need: ${named}. Stop every process of the version ` +
    'before, and start again (docs/upgrading.md)'
  )
}

async function schemaOf(client: pg.Client): Promise<Schema> {
  return (await hasTable(client, 'migration')) ? appliedTo(client) : { version: 0, worksSince: 0 }
}

async function hasTable(client: pg.Client, name: string): Promise<boolean> {
  const { rows } = await client.query<{ found: boolean }>('select to_regclass($1) is not null as found', [name])
  return rows[0]?.found === true
}

async function appliedTo(client: pg.Client): Promise<Schema> {
  const first = await client.query<{ name: string }>(selectFirst)
  assertReleased(first.rows[0]?.name)
  const { rows } = await client.query<Schema>(selectSchema)
  return rows[0] as Schema
}
