import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { knownMigrations, type Migration, type Schema } from '../../../src/store/migrations.ts'
import type { Store } from '../../../src/store/store.ts'
import { type Harness, World } from './harness.ts'

/** One database that versions of Sluice use one after the other. */
export interface Upgraded {
  /** Migrates as a program with these migrations does at its start. */
  migrate(migrations: readonly Migration[]): Promise<string | undefined>
  read(): Promise<Schema>
  /** Starts this program on the database; `log` takes its lines. */
  open(log: string[]): Promise<Store>
  rows(sql: string): Promise<Record<string, unknown>[]>
  /** Prepares every registered statement of the store. */
  prepareAll(): Promise<void>
  pass(ms: number): Promise<void>
}

/** An expand migration that adds a column to every table, a table and an index. */
export function expansion(tables: readonly string[]): string {
  const columns = tables.map((table) => `alter table ${table} add column of_later text;`)
  return ['-- expand', ...columns, 'create table later (x integer);', 'create index later_x on later (x);'].join('\n')
}

/** What two neighbouring versions promise each other about one database. */
export function upgrading(
  dialect: 'sqlite' | 'postgres',
  place: (t: TestContext, content: 'empty' | 'migrated') => Promise<Upgraded>,
  selectTables: string,
): void {
  const known = knownMigrations(dialect)
  const newest = known.length
  const next = (sql: string, ahead = 1) => ({ version: newest + ahead, name: 'later', sql })

  /** A database that the next version has expanded, with the migrations of that version. */
  async function expanded(t: TestContext): Promise<readonly [Upgraded, readonly Migration[]]> {
    const database = await place(t, 'migrated')
    const tables = (await database.rows(selectTables)).map(({ name }) => String(name))
    assert.ok(tables.length > 30, `only ${tables}`)
    const migrations = [...known, next(expansion(tables))]
    await database.migrate(migrations)
    return [database, migrations]
  }

  /** Starts this program, which delivers a message, and answers what it logged. */
  async function delivers(database: Upgraded): Promise<string[]> {
    const log: string[] = []
    const store = await database.open(log)
    try {
      const world = new World({ store, pass: database.pass } as Harness)
      const endpoint = await world.endpoint(await world.application())
      await world.publish([endpoint])
      const worker = await world.join()
      await world.claim(worker)
      const [row] = await world.rows(endpoint)
      assert.ok(row !== undefined)
      assert.equal(await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' })), 'settled')
    } finally {
      await store.close()
    }
    return log
  }

  test('a program works, and starts again, on a database that a newer one has expanded, and says so', async (t) => {
    const [database] = await expanded(t)
    const { version, worksSince } = await database.read()
    assert.equal(version, newest + 1)
    assert.ok(worksSince <= newest, `it works since ${worksSince}`)
    for (const start of ['first', 'second']) {
      const log = await delivers(database)
      assert.match(
        log.join('\n'),
        new RegExp(`schema version ${newest + 1}; .* knows ${newest} and works on it`),
        start,
      )
    }
    assert.equal((await database.read()).version, newest + 1)
  })

  test('every statement can be prepared on a database whose tables all have one more column', async (t) => {
    const [database] = await expanded(t)
    await database.prepareAll()
  })

  test('a program refuses a database from which a newer one took what it needs, and says what to do', async (t) => {
    const [database, migrations] = await expanded(t)
    const contraction = next(`-- contract since ${newest + 1}\ndrop index later_x`, 2)
    await database.migrate([...migrations, contraction])
    assert.deepEqual(await database.read(), { version: newest + 2, worksSince: newest + 1 })
    const refused = {
      name: 'NewerSchemaError',
      message: new RegExp(
        `schema version ${newest + 2}, which programs that know version ${newest + 1} or newer can use; .*` +
          `knows only up to ${newest}: start the version that migrated the database, or restore the backup`,
      ),
    }
    await assert.rejects(database.open([]), refused)
    // A later expansion does not bring back what was taken.
    await database.migrate([...migrations, contraction, next('-- expand\ncreate table even_later (x integer)', 3)])
    await assert.rejects(database.open([]), { name: 'NewerSchemaError' })
    // The version before the newest, which knows what was taken, goes on.
    await database.migrate(migrations)
  })

  test('a program works on a database from which a newer one took what it no longer uses', async (t) => {
    const database = await place(t, 'migrated')
    await database.migrate([...known, next(`-- contract since ${newest}\ncreate table later (x integer)`)])
    await delivers(database)
  })

  test('a newer migration that declares nothing is refused', async (t) => {
    const database = await place(t, 'migrated')
    await database.migrate([...known, next('create table later (x integer)')])
    await assert.rejects(database.open([]), { name: 'NewerSchemaError' })
    await database.rows('update migration set works_since = 0')
    await delivers(database)
    await database.rows('update migration set works_since = null')
    await assert.rejects(database.open([]), { name: 'NewerSchemaError' })
  })

  test('a program that was migrating while a newer one took what it needs does not start', async (t) => {
    const database = await place(t, 'empty')
    const [first, second] = [
      { version: 1, name: 'schema', sql: 'create table a (x integer)' },
      { version: 2, name: 'second', sql: 'create table b (x integer)' },
    ]
    await database.migrate([first])
    const newer = [first, second, { version: 3, name: 'third', sql: '-- contract since 3\ndrop table a' }]
    const older = [first, second]
    const done = await Promise.allSettled([database.migrate(older), database.migrate(newer)])
    assert.equal(done[1].status, 'fulfilled')
    await assert.rejects(database.migrate(older), { name: 'NewerSchemaError' })
  })

  test('an empty database has no schema', async (t) => {
    const database = await place(t, 'empty')
    assert.deepEqual(await database.read(), { version: 0, worksSince: 0 })
  })
}
