import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { systemClock } from '../../../src/runtime/clock.ts'
import { makeFile } from '../../../src/store/sqlite/database-file.ts'
import { openSqliteStore } from '../../../src/store/sqlite/open.ts'
import { contextWith, placeFor } from '../sqlite-harness.ts'

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

test('a file that others could read is closed to them at the next start, with a line in the log', async (t) => {
  const place = placeFor(t)
  const db = new DatabaseSync(place.path)
  db.exec('pragma journal_mode = wal; create table a (b)')
  chmodSync(place.path, 0o644)
  db.close()
  const said: string[] = []
  const context = { ...contextWith(systemClock), log: (sentence: string) => said.push(sentence) }
  const store = await openSqliteStore(context, { path: place.path, role: 'owner' })
  place.closeFirst(() => store.close())
  for (const end of ['', '-wal', '-shm', '-owner']) assert.equal(modeOf(`${place.path}${end}`), '600', end)
  assert.match(said.join(), /its mode was 644 and is 600 now/)
})

test('in a directory that its group may write to, the group keeps its access', async (t) => {
  const place = placeFor(t)
  chmodSync(dirname(place.path), 0o770)
  new DatabaseSync(place.path).close()
  chmodSync(place.path, 0o664)
  const store = await openSqliteStore(contextWith(systemClock), { path: place.path, role: 'owner' })
  place.closeFirst(() => store.close())
  assert.equal(modeOf(place.path), '660')
})

test('a start that cannot succeed says why in one sentence, and leaves nothing open', async (t) => {
  const place = placeFor(t)
  const open = (path: string) => openSqliteStore(contextWith(systemClock), { path, role: 'owner' })
  mkdirSync(`${place.path}.d`)
  await assert.rejects(open(`${place.path}.d`), { message: /is a directory: name a file/ })
  await assert.rejects(open(`${place.path}.nowhere/a.db`), { message: /its directory does not exist/ })
  writeFileSync(place.path, 'this is a letter to the editor and no database at all, and it goes on for a while')
  for (let i = 0; i < 2; i++) {
    await assert.rejects(open(place.path), { message: /is not a SQLite database: move it away/ })
  }
})

/** Ways in which a process touches the file while it has a store open on it. */
const touches: [string, (path: string, ping: () => Promise<unknown>) => unknown][] = [
  ['a ping', (_path, ping) => ping()],
  ['a check before another start', (path) => makeFile(path)],
  [
    'a second store of the same process',
    async (path) => (await openSqliteStore(contextWith(systemClock), { path, role: 'guest' })).close(),
  ],
]

for (const [title, touch] of touches) {
  test(`${title} keeps the lock on the file`, { skip: process.platform !== 'linux' }, async (t) => {
    const place = placeFor(t)
    const { path } = place
    const store = await openSqliteStore(contextWith(systemClock), { path, role: 'owner' })
    place.closeFirst(() => store.close())
    const lockedBy = () =>
      readFileSync('/proc/locks', 'utf8')
        .split('\n')
        .filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${statSync(path).ino} `)).length
    assert.ok(lockedBy() > 0)
    await touch(path, () => store.ping())
    assert.ok(lockedBy() > 0, 'the kernel shows no lock any more')
  })
}
