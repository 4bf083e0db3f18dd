import { test } from 'node:test'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { fuzzBodies, fuzzReads, seed } from './fuzzing.ts'
import { openPopulated } from './populated.ts'

/** Postgres refuses texts that SQLite takes, such as U+0000: none may reach it. */
test(`on postgres, too, any body, id and query leave no fault (seed ${seed})`, async (t) => {
  const { store, close } = await openPostgresHarness()
  t.after(close)
  const api = await openPopulated({ store })
  await fuzzReads(api, 1500)
  await fuzzBodies(api, 1500)
})
