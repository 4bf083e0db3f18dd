import assert from 'node:assert/strict'
import { test } from 'node:test'
import { postgresPlace } from '../e2e/place.ts'
import { Program } from '../e2e/program.ts'
import { TransactionPooler } from '../store/transaction-pooler.ts'

// Before a pooler was detected, the server started, half of its messages were committed without waiting for the disk, and one
// of seven crashes of Postgres took accepted messages with it.
test('a pooler in transaction mode in front of Postgres: the start is refused with the remedy', async (t) => {
  const place = await postgresPlace()
  const pooler = await TransactionPooler.start(place.store)
  t.after(() => pooler.close())
  for (const command of ['serve', 'worker']) {
    const { exit, logged } = await Program.run(t, command, pooler.url)
    assert.equal(exit.code, 1, logged)
    assert.match(logged, /A connection pooler answers in place of the Postgres server.* Name the server itself/)
  }
})
