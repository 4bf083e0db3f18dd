import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { knownMigrations } from '../../src/store/migrations.ts'
import { workplace } from './program.ts'

/** The last migration of before the promise declares nothing, and the one after it expands. */
const lastUndeclared = 35
const known = knownMigrations('sqlite').length

test('migrate --check changes no file, and says by exit code whether running processes survive', async () => {
  const { directory, begin } = workplace()
  const path = (name: string) => resolve(directory, name)
  const run = async (args: readonly string[]) => {
    const begun = begin(args)
    const code = await begun.ended
    return { code, out: begun.out }
  }
  const store = `sqlite:${path('checked.db')}`
  const check = ['migrate', '--check', '--store', store]

  const empty = await run(check)
  assert.equal(empty.code, 0)
  assert.match(empty.out, /is empty: the first start makes its tables/)
  assert.equal(existsSync(path('checked.db')), false)

  assert.equal((await run(['migrate', '--store', store])).code, 0)
  const files = readdirSync(directory)
  const current = await run(check)
  assert.equal(current.code, 0)
  assert.match(current.out, new RegExp(`schema version ${known} .*, the newest known. No migration would run`))
  assert.deepEqual(readdirSync(directory), files, 'no log appears beside the file')

  {
    using db = new DatabaseSync(path('checked.db'))
    db.exec(`delete from migration where version >= ${lastUndeclared}`)
  }
  const behind = await run([...check, '--json'])
  assert.equal(behind.code, 9)
  const { schema, safe, migrations } = JSON.parse(behind.out)
  assert.deepEqual([schema, safe], [lastUndeclared - 1, false])
  assert.deepEqual(
    migrations.slice(0, 2).map((step: { isSafe: boolean }) => step.isSafe),
    [false, true],
  )
  assert.match((await run(check)).out, /Stop every process/)
})
