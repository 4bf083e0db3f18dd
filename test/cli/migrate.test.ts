import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { knownMigrations } from '../../src/store/migrations.ts'
import { laterVersion } from '../e2e/later-version.ts'
import { workplace } from './program.ts'

const known = knownMigrations('sqlite').length

test('migrate --check changes no file, and says by exit code whether running processes survive', async (t) => {
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

  const later = laterVersion(t, '99.0.0', known, [
    '-- expand\ncreate table later (key integer);',
    `-- contract since ${known + 1}\ndrop table later;`,
  ])
  const ahead = await later.run([...check, '--json'], store)
  assert.equal(ahead.code, 9)
  const { schema, safe, migrations } = JSON.parse(ahead.out)
  assert.deepEqual([schema, safe], [known, false])
  assert.deepEqual(
    migrations.map((step: { isSafe: boolean }) => step.isSafe),
    [true, false],
  )
  assert.match((await later.run(check, store)).out, /Stop every process/)
})
