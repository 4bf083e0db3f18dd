import assert from 'node:assert/strict'
import { test } from 'node:test'
import { knownMigrations, planFor, worksSince } from '../../src/store/migrations.ts'

/** The first migration makes the tables of an empty database. */
const lastUndeclared = 1

test('the first line of a migration declares which programs work behind it', () => {
  const since = (sql: string) => worksSince({ version: 41, name: 'it', sql })
  assert.equal(since('-- expand\ncreate table a (x)'), 0)
  assert.equal(since('-- expand: regions get a colour.\n'), 0)
  assert.equal(since('-- contract since 40\ndrop table a'), 40)
  assert.equal(since('-- contract since 40: nothing reads it.\ndrop table a'), 40)
  // What is not a declaration, or not in the first line, stops programs from before.
  for (const sql of [
    '',
    'create table a (x)',
    '-- expanded',
    '-- contract',
    '-- contract since',
    '-- Expand',
    '-- x\n-- expand',
  ])
    assert.equal(since(sql), 41, sql)
})

test('both databases have the same migrations, declared alike', () => {
  const declared = (dialect: 'sqlite' | 'postgres') =>
    knownMigrations(dialect).map((migration) => [migration.version, migration.name, worksSince(migration)])
  assert.deepEqual(declared('sqlite'), declared('postgres'))
})

test('every new migration declares itself, and takes away only what a program before it no longer uses', () => {
  const wrong = knownMigrations('sqlite')
    .filter((migration) => migration.version > lastUndeclared && worksSince(migration) >= migration.version)
    .map(({ version, name }) => `${version} (${name})`)
  assert.deepEqual(
    wrong,
    [],
    'its first line must be `-- expand` or `-- contract since VERSION`, with an earlier version',
  )
})

test('a plan says which migrations are safe beside programs that know the database as it is', () => {
  const migrations = [
    { version: 1, name: 'first', sql: 'create table a (x)' },
    { version: 2, name: 'second', sql: '-- expand' },
    { version: 3, name: 'third', sql: '-- contract since 1' },
    { version: 4, name: 'fourth', sql: '-- contract since 2' },
  ]
  const safeFrom = (version: number) =>
    planFor(migrations, { version, worksSince: 0 }).steps.map((step) => [step.version, step.isSafe])
  assert.deepEqual(safeFrom(1), [
    [2, true],
    [3, true],
    [4, false],
  ])
  assert.deepEqual(safeFrom(2), [
    [3, true],
    [4, true],
  ])
  assert.deepEqual(safeFrom(4), [])
  assert.ok(
    safeFrom(0).every(([, isSafe]) => isSafe),
    'no program works on an empty database',
  )
  assert.deepEqual(planFor(migrations, { version: 9, worksSince: 4 }).steps, [])
  assert.throws(() => planFor(migrations, { version: 9, worksSince: 5 }), { name: 'NewerSchemaError' })
})
