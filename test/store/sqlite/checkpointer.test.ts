import assert from 'node:assert/strict'
import { existsSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { systemClock } from '../../../src/runtime/clock.ts'
import { systemRandom, systemRandomText } from '../../../src/runtime/random.ts'
import { checkpointApart } from '../../../src/store/sqlite/checkpointer.ts'
import { Connection } from '../../../src/store/sqlite/connection.ts'
import { eventually } from '../../e2e/eventually.ts'
import { testVault } from '../test-vault.ts'

test('what is committed is copied into the database by a thread of its own, which ends when told', async (t) => {
  const place = await mkdtemp(join(tmpdir(), 'sluice-checkpoint-'))
  t.after(() => rm(place, { recursive: true }))
  const path = join(place, 'a.db')
  const db = new DatabaseSync(path)
  db.exec(
    'pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 0; create table n (v text)',
  )
  const connection = new Connection(db, {
    clock: systemClock,
    random: systemRandom,
    randomText: systemRandomText,
    vault: testVault,
  })
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
