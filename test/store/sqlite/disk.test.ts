import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import type { Clock } from '../../../src/domain/clock.ts'
import { applications } from '../../../src/features/applications/rows.ts'
import { systemClock } from '../../../src/runtime/clock.ts'
import { finishNow } from '../../../src/store/sql/port.ts'
import { Connection } from '../../../src/store/sqlite/connection.ts'
import { delivering } from '../../../src/store/sqlite/delivering.ts'
import { intake } from '../../../src/store/sqlite/intake.ts'
import { migrate } from '../../../src/store/sqlite/migrate.ts'
import { sqlitePort } from '../../../src/store/sqlite/port.ts'
import { Disk } from '../../../src/store/sqlite/write-ahead-log.ts'
import { StoreTrouble } from '../../../src/store/store.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { contextWith } from '../sqlite-harness.ts'

/** A disk whose waits end when the test says so, and as it says. */
class HeldDisk extends Disk {
  readonly waits: { pass: () => void; fail: () => void }[] = []
  /** How often it was told to write the log out. */
  asked = 0

  protected override async sync(): Promise<void> {
    this.asked++
    await super.sync()
    await new Promise<void>((resolve, reject) => {
      this.waits.push({ pass: resolve, fail: () => reject(new Error('EIO: i/o error')) })
    })
  }

  async begun(count: number): Promise<void> {
    while (this.waits.length < count) await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Lets everything happen that waits for nothing outside this process. */
async function turns(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
}

async function openFile(t: TestContext, clock: Clock = systemClock) {
  const place = await mkdtemp(join(tmpdir(), 'sluice-disk-'))
  const path = join(place, 'a.db')
  const db = new DatabaseSync(path)
  db.exec('pragma journal_mode = wal; pragma synchronous = full')
  const logged: string[] = []
  const connection = new Connection(db, { ...contextWith(clock), log: (sentence) => logged.push(sentence) })
  migrate(connection)
  const disk = new HeldDisk(path)
  connection.disk = disk
  t.after(async () => {
    for (const { pass } of disk.waits) pass()
    await disk.close()
    db.close()
    await rm(place, { recursive: true })
  })
  const create = applications(sqlitePort(connection)).createApplication
  const addApplication = () => finishNow(create({ name: 'Acme', uid: null, throttleRate: null, metadata: {} }))
  const synchronous = () => db.prepare('pragma synchronous').get()?.synchronous
  return { db, path, connection, disk, logged, synchronous, addApplication }
}

test('a publish is answered, and reported to the engine, when the disk has it and not before', async (t) => {
  const { connection, disk, synchronous, addApplication } = await openFile(t)
  const { key: app } = addApplication()
  const told: string[] = []
  const told1 = (what: string) => () => void told.push(what)
  connection.watcher = { rows: told1('rows'), lanes: told1('lanes'), settings: told1('settings') }
  const { publish } = intake(connection)
  const publication = {
    ...{ app, version: 1, eventType: 'a', eventId: null, channels: null, body: new Uint8Array(1), delayMs: 0 },
    ...{ contentType: 'text/plain', endpoints: [7] },
  }
  const published = Promise.resolve(publish([publication])).then(([answer]) => {
    told.push(answer?.state ?? 'nothing')
  })
  await disk.begun(1)
  await turns()
  assert.deepEqual(told, [])
  assert.equal(connection.prepare<{ n: number }>('select count(*) as n from message').get()?.n, 1, 'it is committed')
  assert.equal(synchronous(), 2, 'the next commit waits by itself')
  disk.waits[0]?.pass()
  await published
  assert.equal(told[0], 'rows')
  assert.equal(told.at(-1), 'accepted')
})

test('one wait is for all that was written before it began, and what comes later gets the next', async (t) => {
  const { disk } = await openFile(t)
  const ended: string[] = []
  const wait = (name: string) => disk.caughtUp().then(() => void ended.push(name))
  const first = [wait('a'), wait('b')]
  await disk.begun(1)
  const second = [wait('c'), wait('d')]
  assert.equal(disk.waits.length, 1)
  disk.waits[0]?.pass()
  await Promise.all(first)
  assert.deepEqual(ended, ['a', 'b'])
  await disk.begun(2)
  disk.waits[1]?.pass()
  await Promise.all(second)
  assert.deepEqual(ended, ['a', 'b', 'c', 'd'])
  assert.equal(disk.waits.length, 2)
})

test('a commit behind one that the disk refused does not count as safe', async (t) => {
  const { disk } = await openFile(t)
  const first = disk.caughtUp()
  await disk.begun(1)
  const second = disk.caughtUp()
  disk.waits[0]?.fail()
  await assert.rejects(first, StoreTrouble)
  await assert.rejects(second, StoreTrouble)
  assert.equal(disk.waits.length, 1, 'a wait that began now would succeed')
})

test('rows whose publish still waits for the disk are not handed to those who send', async (t) => {
  const { connection, disk, addApplication } = await openFile(t)
  const { key: app } = addApplication()
  const publication = {
    ...{ app, version: 1, eventType: 'a', eventId: null, channels: null, body: new Uint8Array(1), delayMs: 0 },
    ...{ contentType: 'text/plain', endpoints: [7] },
  }
  const published = Promise.resolve(intake(connection).publish([publication]))
  await disk.begun(1)
  let isRead = false
  const reading = Promise.resolve(delivering(connection).readDue([{ endpoint: 7, class: 0, after: null, limit: 9 }]))
  void reading.then(() => {
    isRead = true
  })
  await turns()
  assert.equal(isRead, false)
  disk.waits[0]?.pass()
  await published
  const [page] = await reading
  assert.equal(disk.waits.length, 1, 'one wait is enough for both')
  assert.equal(page?.rows.length, 1)
})

test('after the disk has failed, the log is written again before the next commit', async (t) => {
  const { db, path, connection, disk, addApplication } = await openFile(t)
  const failing = connection.onDisk()
  await disk.begun(1)
  disk.waits[0]?.fail()
  await assert.rejects(failing, (error) => error instanceof StoreTrouble && /i\/o error/.test(error.message))
  assert.equal(disk.failed, true)

  const count = () => connection.prepare<{ n: number }>('select count(*) as n from application').get()?.n ?? 0
  const before = count()
  // A reader still needs pages that are only in the log, so SQLite cannot start the log again.
  const reader = new DatabaseSync(path)
  reader.exec('begin')
  reader.prepare('select count(*) from application').get()
  db.exec('pragma busy_timeout = 10')
  assert.throws(addApplication, StoreTrouble)
  reader.close()
  assert.equal(count(), before)

  addApplication()
  assert.equal(disk.failed, false)
  assert.equal(count(), before + 1)
})

test('the last commit that need not wait is on the disk a second later, though no other one follows', async (t) => {
  const clock = new VirtualClock()
  const { connection, disk, addApplication } = await openFile(t, clock)
  addApplication()
  const touch = connection.prepare("update application set name = 'Other'")
  await clock.advance(400)
  connection.relaxedTransaction(() => touch.run())
  connection.relaxedTransaction(() => touch.run())
  await clock.advance(500)
  await turns()
  assert.equal(disk.asked, 0)
  await clock.advance(100)
  await turns()
  assert.equal(disk.asked, 1)
  await disk.begun(1)
  disk.waits[0]?.pass()
  await turns()
  await clock.advance(10_000)
  assert.equal(disk.asked, 1, 'one wait is for both, and no other one is made for nothing')
})

test('a commit that need not wait is on the disk a second later, and a failure then is reported', async (t) => {
  const clock = new VirtualClock()
  const { connection, disk, logged, addApplication } = await openFile(t, clock)
  addApplication()
  const touch = connection.prepare("update application set name = 'Other'")
  connection.relaxedTransaction(() => touch.run())
  assert.equal(disk.waits.length, 0)
  await clock.advance(1050)
  connection.relaxedTransaction(() => touch.run())
  await disk.begun(1)
  disk.waits[0]?.fail()
  while (logged.length === 0) await new Promise((resolve) => setImmediate(resolve))
  assert.match(logged[0] ?? '', /did not take in/)
})
