import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, type TestContext, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import type { Clock } from '../../src/domain/clock.ts'
import { Engine } from '../../src/engine/engine.ts'
import { diagnose } from '../../src/features/doctor/diagnosis.ts'
import { doctorLimits } from '../../src/features/doctor/facts.ts'
import { servicesOf } from '../../src/operations/services.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { version } from '../../src/runtime/version.ts'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { openPlace, type Place, sqlitePlace } from '../e2e/place.ts'
import { engineParts, sendingBy } from '../engine/engine-under-test.ts'
import { sharedServer, useOwnServer } from '../store/postgres-harness.ts'
import { Replication } from '../store/replication.ts'
import { only, scene, soon } from './doctor-scene.ts'

// Some of these stop or change the server.
useOwnServer()

const slow = { ...soon, slowCommitMs: doctorLimits.slowCommitMs }

/** Makes every writer of a SQLite file wait for 700 ms: takes the lock as soon as another connection has committed. */
const holdLock = `
  const { DatabaseSync } = require('node:sqlite')
  const { workerData, parentPort } = require('node:worker_threads')
  const db = new DatabaseSync(workerData, { timeout: 60000 })
  const cell = new Int32Array(new SharedArrayBuffer(4))
  const pause = (ms) => Atomics.wait(cell, 0, 0, ms)
  const seen = () => db.prepare('pragma data_version').get().data_version
  for (;;) {
    db.exec('begin immediate')
    const before = seen()
    parentPort.postMessage('held')
    pause(700)
    db.exec('commit')
    while (seen() === before) pause(1)
  }`

describe('the doctor on a SQLite file', () => {
  test('finds a store that is slow', async (t) => {
    const place = await sqlitePlace(t)
    const s = await scene(t, 'sqlite', {}, place)
    await s.store.join({ leaseMs: 600_000, description: 'a worker' })
    await s.finds([])
    const holder = new Worker(holdLock, { eval: true, workerData: place.files.path })
    atEnd(t, () => holder.terminate())
    await new Promise((resolve) => holder.once('message', resolve))
    const { evidence, command } = only(await s.finds(['store_slow'], slow))
    assert.ok(Number(evidence.commitMs) >= doctorLimits.slowCommitMs)
    assert.equal(command, 'iostat -x 1 5')
  })

  test('finds that the store is down, and says why', async (t) => {
    const place = await sqlitePlace(t)
    const s = await scene(t, 'sqlite', {}, place)
    const { path } = place.files
    await rename(path, `${path}.gone`)
    const { severity, sentence } = only(await s.finds(['store_down']))
    assert.equal(severity, 'critical')
    assert.match(sentence, /^The store takes no writes: The database file was deleted while Sluice was running/)
    await rename(`${path}.gone`, path)
    await s.finds(['no_worker'])
  })

  test('finds a write-ahead log that grows because of a reader', async (t) => {
    const place = await sqlitePlace(t)
    const s = await scene(t, 'sqlite', {}, place)
    await s.work()
    await s.finds([])
    const reader = new DatabaseSync(place.files.path)
    atEnd(t, () => reader.close())
    reader.exec('begin; select count(*) from message')
    const writer = new DatabaseSync(place.files.path, { timeout: 60_000 })
    writer.exec('create table ballast (x)')
    for (let i = 0; i < 9; i++) writer.exec('insert into ballast values (zeroblob(16 * 1024 * 1024))')
    writer.close()
    const { evidence, command } = only(await s.finds(['wal_filling']))
    assert.ok(Number(evidence.logBytes) >= 128 * 2 ** 20)
    assert.equal(command, `fuser -v ${place.files.path}-wal`)
  })

  test('finds a disk that fills', async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'sluice-disk-'))
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=100m', 'tmpfs', directory], { stdio: 'ignore' })
    } catch {
      rmSync(directory, { recursive: true })
      return t.skip('this user may not mount a file system')
    }
    atEnd(t, () => {
      execFileSync('umount', [directory])
      rmSync(directory, { recursive: true })
    })
    const path = join(directory, 'sluice.db')
    const place: Place = { dialect: 'sqlite', store: `sqlite:${path}`, query: () => Promise.resolve([]) }
    const s = await scene(t, 'sqlite', {}, place)
    await s.work()
    const { severity, evidence, command } = only(await s.finds(['disk_filling']))
    assert.equal(severity, 'critical')
    assert.ok(Number(evidence.freeBytes) < 100 * 2 ** 20)
    assert.equal(command, `df -h ${path}`)
    await s.finds([], { ...soon, diskBytes: 2 ** 20 })
  })
})

describe('the doctor on Postgres', () => {
  test('finds a store that is slow', async (t) => {
    const s = await postgresScene(t)
    const server = await sharedServer()
    const holder = await server.session(s.place.store)
    atEnd(t, () => holder.end())
    let isOver = false
    const holding = (async () => {
      while (!isOver) {
        // Writers wait, and readers do not.
        await holder.query('begin; lock table leader in share mode')
        await new Promise((resolve) => setTimeout(resolve, 700))
        await holder.query('commit')
      }
    })()
    try {
      await s.finds(['store_slow'], { ...slow, idleTransactionMs: Number.POSITIVE_INFINITY })
    } finally {
      isOver = true
      await holding
    }
    await s.finds([], slow)
  })

  test('finds settings by which a power cut loses messages', async (t) => {
    const s = await postgresScene(t)
    const server = await sharedServer()
    await server.query('alter system set full_page_writes = off')
    await server.query('select pg_reload_conf()')
    atEnd(t, async () => {
      await server.query('alter system reset full_page_writes')
      await server.query('select pg_reload_conf()')
    })
    const { severity, command, evidence } = only(await s.finds(['postgres_not_durable']))
    assert.deepEqual([severity, evidence.settings], ['critical', 'full_page_writes = off'])
    assert.match(command, /alter system set full_page_writes = on.*pg_reload_conf/)
  })

  test('finds synchronous_commit off by default, for new connections', async (t) => {
    const place = await openPlace(t, 'postgres')
    const database = new URL(place.store).pathname.slice(1)
    await (await sharedServer()).query(`alter database ${database} set synchronous_commit = off`)
    const s = await postgresScene(t, place)
    const { command } = only(await s.finds(['postgres_async_commit']))
    assert.equal(command, `psql "$SLUICE_STORE" -c "alter database ${database} set synchronous_commit = on"`)
  })

  test('finds a standby that no commit waits for, one that is missing, and commits that wait in vain', async (t) => {
    const replication = await Replication.start(false)
    atEnd(t, () => replication.close())
    const { primary, standby } = replication
    const query = (sql: string) => replication.query(primary, sql)
    const s = await postgresScene(t, { dialect: 'postgres', store: replication.url, query })
    const { evidence, command } = only(await s.finds(['postgres_standby']))
    assert.deepEqual([evidence.named, evidence.following], [2, 1])
    // The command itself ends the trouble.
    for (const [, statement] of command.matchAll(/-c "(.*?)"/g)) await query(statement as string)
    await s.finds([])

    await standby.stop('in order')
    const waiting = only(await s.finds(['store_down']))
    assert.match(waiting.sentence, /Each commit waits until a standby .*'ANY 1 \(\*\)'.* no such standby follows/)
    await query('alter system reset synchronous_standby_names')
    await query('select pg_reload_conf()')
    const { sentence } = only(await s.finds(['postgres_standby']))
    assert.match(sentence, /^The store names 2 Postgres servers, and no standby follows/)
  })

  test('finds that connections run out', async (t) => {
    const s = await postgresScene(t)
    const server = await sharedServer()
    const database = new URL(s.place.store).pathname.slice(1)
    await s.finds([])
    await server.query(`alter database ${database} connection limit 3`)
    const { evidence } = only(await s.finds(['postgres_connections']))
    assert.deepEqual([evidence.of, evidence.limit], ['database', 3])
  })

  test('finds a session that is idle within a transaction, and whom it blocks', async (t) => {
    const s = await postgresScene(t)
    const server = await sharedServer()
    const limits = { ...soon, idleTransactionMs: 200 }
    const idle = await server.session(s.place.store)
    atEnd(t, () => idle.end())
    await idle.query("set application_name = 'forgotten'; begin; update application set name = 'x'")
    const { severity, evidence, command } = only(await s.finds(['postgres_open_transaction'], limits))
    assert.deepEqual([severity, evidence.application, evidence.blocks], ['warning', 'forgotten', 0])
    const blocked = await server.session(s.place.store)
    atEnd(t, () => blocked.end())
    const waits = blocked.query("update application set name = 'y'").catch(() => {})
    await eventually('the finding is critical', async () => {
      const [found] = await s.findings(limits)
      return found?.severity === 'critical' && found.evidence.blocks === 1
    })
    // The command itself ends the trouble.
    const statement = /-c "(.*)"$/.exec(command)?.[1] as string
    idle.on('error', () => {})
    await server.query(statement, s.place.store)
    await waits
    await s.finds([], limits)
  })

  test('finds dead rows that vacuum does not remove', async (t) => {
    const s = await postgresScene(t)
    const limits = { ...soon, deadRows: 10_000 }
    await s.finds([], limits)
    await s.place.query('alter table event_id set (autovacuum_enabled = off)')
    await s.place.query(
      `insert into event_id (app, event_id, message) select 0, n::text, n from generate_series(1, 20000) n`,
    )
    await s.place.query('delete from event_id')
    const { evidence } = only(await s.finds(['postgres_vacuum_lags'], limits))
    assert.deepEqual([evidence.table, evidence.autovacuum], ['event_id', true])
  })

  test('finds the clock of this server or of a worker off', async (t) => {
    const s = await postgresScene(t)
    const off = { ...systemClock, now: () => systemClock.now() + 90_000 } as Clock
    const { doctor } = servicesOf({ ...s.services, clock: off })
    const { findings } = diagnose(await doctor.facts(), soon)
    assert.deepEqual([only(findings).code, only(findings).severity], ['clock_off', 'critical'])
    assert.match(only(findings).sentence, /^The clock of this server is 1 min (2[89]|3\d) s ahead of/)
    const behind = { ...systemClock, now: () => systemClock.now() - 40_000 } as Clock
    const engine = new Engine({
      ...engineParts(behind),
      store: s.store,
      sender: sendingBy(() => () => {}),
      description: 'an off clock',
      process: { version, host: 'h', pid: 1 },
    })
    await engine.start()
    atEnd(t, () => engine.stop(0))
    const { sentence, severity } = only(await s.finds(['clock_off']))
    assert.match(sentence, /^The clock of worker \d+ \(an off clock\) is \d+ s behind/)
    assert.equal(severity, 'warning')
  })

  test('finds that the server is gone, and nothing once it is back', async (t) => {
    const s = await postgresScene(t)
    const server = await sharedServer()
    await server.stop('at once')
    assert.equal(only(await s.finds(['store_down'])).command, 'pg_isready -d "$SLUICE_STORE"')
    await server.start()
    await eventually('the store answers', async () => {
      const codes = (await s.findings()).map(({ code }) => code)
      return !codes.includes('store_down')
    })
  })
})

/** A scene with a worker that owns no lanes. */
async function postgresScene(t: TestContext, place?: Place) {
  const s = await scene(t, 'postgres', {}, place)
  await s.store.join({ leaseMs: 600_000, description: 'a worker' })
  return s
}
