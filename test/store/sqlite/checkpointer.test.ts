import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { systemClock } from '../../../src/runtime/clock.ts'
import { systemRandom, systemRandomText } from '../../../src/runtime/random.ts'
import { Connection } from '../../../src/store/sqlite/connection.ts'
import { checkpointApart } from '../../../src/store/sqlite/write-ahead-log.ts'
import { eventually } from '../../e2e/eventually.ts'
import { testVault } from '../test-vault.ts'

async function open(t: TestContext) {
  const place = await mkdtemp(join(tmpdir(), 'sluice-checkpoint-'))
  t.after(() => rm(place, { recursive: true }))
  const path = join(place, 'a.db')
  // As the store does: the thread keeps the writer waiting for a moment while it empties the log.
  const db = new DatabaseSync(path, { timeout: 5000 })
  db.exec(
    'pragma journal_mode = wal; pragma secure_delete = fast; pragma synchronous = full; pragma wal_autocheckpoint = 0; create table n (v text)',
  )
  const connection = new Connection(db, {
    clock: systemClock,
    random: systemRandom,
    randomText: systemRandomText,
    vault: testVault,
  })
  return { path, db, connection }
}

test('a thread of its own copies commits into the database, and ends when asked to', async (t) => {
  const { path, db, connection } = await open(t)
  const stop = checkpointApart(connection, path)
  const insert = connection.prepare('insert into n values (?)')
  const before = statSync(path).size
  await eventually('a copied log', async () => {
    connection.transaction(() => insert.run('x'.repeat(10_000)))
    return statSync(path).size > before || undefined
  })
  connection.relaxedTransaction(() => insert.run('the last one'))
  assert.deepEqual({ ...db.prepare('pragma synchronous').get() }, { synchronous: 2 }, 'commits stay durable')
  await stop()
  assert.equal(connection.onCommit, undefined)
  db.close()
  assert.equal(existsSync(`${path}-wal`), false, 'another connection is still open')
})

test('rows that are erased while the log is being emptied are gone from the files without another commit', async (t) => {
  const { path, db, connection } = await open(t)
  const stop = checkpointApart(connection, path)
  const insert = connection.prepare('insert into n values (?)')
  const erase = connection.prepare('delete from n where v = ?')
  const canary = (i: number) => `canary-${i}-${'x'.repeat(9000)}`
  const rounds = 40
  connection.transaction(() => {
    for (let i = 0; i < 2 * rounds; i++) insert.run(canary(i))
  })
  db.exec('pragma secure_delete = on')
  for (let i = 0; i < rounds; i++) {
    for (const each of [i, i + rounds]) {
      connection.transaction(() => erase.run(canary(each)))
      connection.wipeLog()
      // The thread empties the log meanwhile, and its answer waits for this turn to end.
      const until = performance.now() + (i % 8)
      while (performance.now() < until);
    }
    const gone = () =>
      [path, `${path}-wal`].every((file) => !new RegExp(`canary-(${i}|${i + rounds})-`).test(textOf(file)))
    await eventually(`round ${i} leaves no byte`, gone)
  }
  await stop()
  db.close()
})

function textOf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'latin1') : ''
}
