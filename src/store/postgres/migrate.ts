import pg from 'pg'
import { programFolder } from '../../assets/assets.ts'
import { type Migration, missingFrom, readMigrations } from '../migrations.ts'
import { locks } from '../sql/dialect.ts'
import { clientConfig } from './sessions.ts'

const createMigrationTable = `
  create table if not exists migration (
    version integer primary key,
    name text not null,
    applied_at bigint not null
  )`

const selectVersion = 'select max(version) as version from migration'
const insertMigration = `
  insert into migration (version, name, applied_at)
  values ($1, $2, (extract(epoch from clock_timestamp()) * 1000)::bigint)`

/** The migrations that come with this program, in order. */
export function knownMigrations(): Migration[] {
  return readMigrations(programFolder('store/postgres/migrations'))
}

/**
 * Brings the database to the newest version, one transaction per migration. Safe when several processes do it at once:
 * each looks again once it holds the lock.
 */
export async function migrate(url: string, migrations: readonly Migration[] = knownMigrations()): Promise<void> {
  // A connection of its own, without the time limit on answers: a migration takes as long as it takes.
  const client = new pg.Client({ ...clientConfig(url), query_timeout: 0 })
  client.on('error', () => {})
  await client.connect()
  try {
    for (const migration of missingFrom(migrations, await currentVersion(client))) await apply(client, migration)
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
  await client.query(createMigrationTable)
  if ((await newestApplied(client)) < migration.version) {
    await client.query(waitShortly)
    await client.query(migration.sql)
    await client.query(insertMigration, [migration.version, migration.name])
  }
  await client.query('commit')
}

/** The newest migration applied, 0 for an empty database. */
async function currentVersion(client: pg.Client): Promise<number> {
  const table = await client.query(`select to_regclass('migration') as found`)
  return table.rows[0]?.found === null ? 0 : newestApplied(client)
}

async function newestApplied(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ version: number | null }>(selectVersion)
  return rows[0]?.version ?? 0
}
