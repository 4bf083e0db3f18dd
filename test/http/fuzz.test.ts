import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemRandom, systemRandomText } from '../../src/runtime/random.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { testVault } from '../store/test-vault.ts'
import { fuzzBodies, fuzzReads, seed } from './fuzzing.ts'
import { openPopulated } from './populated.ts'

/** Replay: FUZZ_SEED=7 node --test test/http/fuzz.test.ts */
test(`10,000 bodies over every route that takes one leave no fault and no partial write (seed ${seed})`, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-fuzz-'))
  const path = join(directory, 'fuzz.db')
  const context = { clock: systemClock, random: systemRandom, randomText: systemRandomText, vault: testVault }
  const store = await openSqliteStore(context, { path, role: 'owner' })
  const watcher = new DatabaseSync(path, { readOnly: true })
  t.after(async () => {
    watcher.close()
    await store.close()
    rmSync(directory, { recursive: true })
  })
  // To another connection, this number changes with every commit and with nothing else.
  const versionOf = watcher.prepare('pragma data_version')
  let version = versionOf.get()
  const api = await openPopulated({ store })
  assert.notDeepEqual(versionOf.get(), version, 'the watcher sees what is written')
  const alwaysRefused = await fuzzBodies(
    api,
    10_000,
    () => {
      version = versionOf.get()
    },
    (what) => assert.deepEqual(versionOf.get(), version, `refused, but something was written: ${what}`),
  )
  assert.deepEqual(alwaysRefused, [])
})

test(`any id and any query on every route that reads leave no fault (seed ${seed})`, async () => {
  await fuzzReads(await openPopulated(), 3000)
})
