import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { Connection } from '../../../src/store/sqlite/connection.ts'
import {
  entriesFor,
  fanIn,
  liveRuns,
  mayHave,
  mergeSteps,
  prefixOf,
  rowsWith,
  sliceOf,
  slicesOf,
} from '../../../src/store/sqlite/hash-slices.ts'
import { idempotency } from '../../../src/store/sqlite/idempotency.ts'
import { dayOf, GuestHashes, StoreHashes, type TakenHashes } from '../../../src/store/sqlite/taken-hashes.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { contextWith, migratedPlace } from '../sqlite-harness.ts'

const hour = 60 * 60 * 1000
const day = 24 * hour

test('the live runs have each row once, and each merge has whole runs to merge', () => {
  /** How many slices of each run were written. */
  const written = new Map<string, number>()
  const isWhole = (level: number, run: number) => written.get(`${level}/${run}`) === slicesOf(level)
  for (let last = 0; last < 5000; last++) {
    written.set(`0/${last}`, fanIn)
    const steps = mergeSteps(last)
    for (const { level, target, slice } of steps) {
      for (let i = 0; i < fanIn; i++) assert(isWhole(level, target * fanIn + i))
      const key = `${level + 1}/${target}`
      assert.equal(written.get(key) ?? 0, slice * fanIn, 'the slices of a run are made in their order')
      written.set(key, (slice + 1) * fanIn)
    }
    assert.deepEqual(
      steps.map(({ level }) => level),
      steps.map((_, i) => i),
    )
    let end = last + 1
    for (const { level, run } of liveRuns(last)) {
      assert(isWhole(level, run))
      assert.equal((run + 1) * fanIn ** level, end, 'a run ends where the next one begins')
      end = run * fanIn ** level
    }
    assert.equal(end, 0)
    assert(liveRuns(last).length <= 4 * 2 * fanIn)
  }
})

test('a slice has each of its entries, and its filter lets few others through', () => {
  for (const level of [0, 2]) {
    const names = Array.from({ length: 16_384 }, (_, i) => `name ${level} ${i}`)
    const first = sliceOf(prefixOf('name'), level) & -fanIn
    const inThese = (name: string) => (sliceOf(prefixOf(name), level) & -fanIn) === first
    const entries = entriesFor(names.length)
    // As many entries in these slices as in those of a real run.
    const rows = names.map((name) => (level === 0 ? prefixOf(name) : ((prefixOf(name) >>> 6) | (first << 23)) >>> 0))
    for (const [row, prefix] of rows.entries()) entries.add(prefix, row)
    const slices = entries.slices(level, first)
    for (const [row, prefix] of rows.entries()) {
      const slice = slices[sliceOf(prefix, level) - first]
      assert(slice !== undefined && mayHave(slice.filter, 0, prefix))
      assert(rowsWith(slice.entries, prefix).includes(row))
    }
    let [asked, passed] = [0, 0]
    for (let i = 0; asked < 20_000; i++) {
      const name = `other ${i}`
      if (!inThese(name)) continue
      asked++
      const slice = slices[sliceOf(prefixOf(name), level) - first]
      if (slice !== undefined && mayHave(slice.filter, 0, prefixOf(name))) passed++
    }
    assert(passed / asked < 0.01, `${passed} of ${asked} pass the filter`)
  }
})

test('rows of one hash are found newest first', () => {
  const entries = entriesFor(4)
  for (const row of [3, 9, 5]) entries.add(prefixOf('a'), row)
  entries.add(prefixOf('b'), 7)
  const slice = entries.slices(0, 0)[sliceOf(prefixOf('a'), 0)]
  assert.deepEqual(slice && rowsWith(slice.entries, prefixOf('a')), [9, 5, 3])
})

class Undone extends Error {}

interface OpenStore {
  readonly connection: Connection
  readonly hashes: StoreHashes
}

interface OpenGuest {
  readonly connection: Connection
  readonly db: DatabaseSync
  readonly guest: GuestHashes
}

/** Two stores on one file, callers' transactions, and what they must know. */
class World {
  readonly clock = new VirtualClock()
  readonly #path: string
  readonly #open: DatabaseSync[] = []
  /** When each hash expires. */
  readonly #known = new Map<string, number>()
  readonly #stores: OpenStore[]
  readonly #guests: OpenGuest[]

  constructor(path: string) {
    this.#path = path
    this.#stores = [this.#store(), this.#store()]
    this.#guests = this.#stores.map(({ hashes }) => {
      const connection = this.#connection()
      return { connection, db: connection.db, guest: new GuestHashes(connection, hashes) }
    })
  }

  close(): void {
    for (const db of this.#open) db.close()
  }

  #connection(): Connection {
    const db = new DatabaseSync(this.#path)
    db.exec('pragma synchronous = off')
    this.#open.push(db)
    return new Connection(db, contextWith(this.clock))
  }

  #store() {
    const connection = this.#connection()
    return { connection, hashes: new StoreHashes(connection, 2) }
  }

  restart(which: number): void {
    const connection = this.#connection()
    const hashes = new StoreHashes(connection, 2)
    this.#stores[which] = { connection, hashes }
    const guest = this.#connection()
    this.#guests[which] = { connection: guest, db: guest.db, guest: new GuestHashes(guest, hashes) }
  }

  #take(
    hashes: TakenHashes,
    names: readonly number[],
    ttlMs: number,
    known: Map<string, number>,
    frees: boolean,
  ): void {
    const now = this.clock.now()
    for (const name of names) {
      const once = { hash: `h${name}`, fingerprint: `f${name}`, ttlMs }
      const expiry = known.get(once.hash) ?? 0
      const isTaken = expiry > now && dayOf(expiry) <= dayOf(now + ttlMs)
      const found = hashes.find(once, now)
      assert.equal(found?.expires_at, isTaken ? expiry : undefined, `hash ${once.hash}`)
      if (found === undefined) {
        if (expiry > now) continue // It expires later than this look goes; as before, a second row would be made.
        hashes.take(once, name, null, now)
        known.set(once.hash, now + ttlMs)
      } else if (frees) {
        hashes.free(found)
        known.delete(once.hash)
      }
    }
  }

  /** Takes hashes in one transaction of a store. */
  publish(which: number, names: readonly number[], ttlMs: number, isUndone: boolean, frees: boolean): void {
    const { connection, hashes } = this.#stores[which] as OpenStore
    const known = new Map(this.#known)
    hashes.tidy()
    try {
      connection.transaction(() => {
        this.#take(hashes, names, ttlMs, known, frees)
        if (isUndone) throw new Undone()
      })
    } catch (error) {
      if (!(error instanceof Undone)) throw error
      return
    }
    this.#keep(known)
  }

  /** Takes hashes one by one in a caller's transaction; some of them are undone by a savepoint. */
  enlist(which: number, names: readonly number[], ttlMs: number, isUndone: boolean, undoneFrom: number): void {
    const { db, guest, connection } = this.#guests[which] as OpenGuest
    let known = new Map(this.#known)
    db.exec('begin immediate')
    for (const [i, name] of names.entries()) {
      const before = new Map(known)
      db.exec('savepoint s')
      connection.transactions++
      this.#take(guest, [name], ttlMs, known, false)
      if (i % 3 === undoneFrom) {
        db.exec('rollback to s')
        known = before
      }
      db.exec('release s')
    }
    db.exec(isUndone ? 'rollback' : 'commit')
    if (!isUndone) this.#keep(known)
  }

  sweep(which: number): void {
    const { connection, hashes } = this.#stores[which] as OpenStore
    const { sweepIdempotency } = idempotency(connection, hashes)
    for (let i = 0; i < 3; i++) sweepIdempotency(7)
  }

  #keep(known: Map<string, number>): void {
    this.#known.clear()
    for (const [hash, expiry] of known) this.#known.set(hash, expiry)
  }
}

async function worldFor(t: TestContext): Promise<World> {
  const place = await migratedPlace()
  const world = new World(place.path)
  t.after(() => {
    world.close()
    return place.remove()
  })
  return world
}

test('over undone work, restarts, sweeps and other processes, a hash is found while it is taken and not afterwards', async () => {
  const step = fc.record({
    kind: fc.constantFrom('publish', 'publish', 'publish', 'enlist', 'sweep', 'restart', 'pass'),
    which: fc.nat(1),
    names: fc.array(fc.nat(80), { maxLength: 12 }),
    ttlMs: fc.constantFrom(hour, day, 3 * day),
    isUndone: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
    frees: fc.integer({ min: 0, max: 6 }).map((n) => n === 0),
    more: fc.nat(8),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60 }), async (steps) => {
      const place = await migratedPlace()
      const world = new World(place.path)
      try {
        for (const { kind, which, names, ttlMs, isUndone, frees, more } of steps) {
          if (kind === 'publish') world.publish(which, names, ttlMs, isUndone, frees)
          else if (kind === 'enlist') world.enlist(which, names, ttlMs, isUndone, more)
          else if (kind === 'sweep') world.sweep(which)
          else if (kind === 'restart') world.restart(which)
          else await world.clock.advance(more * hour)
        }
      } finally {
        world.close()
        await place.remove()
      }
    }),
    { numRuns: 30 },
  )
})

test('thousands of hashes of a day are all found again, by the store that took them and by others', async (t) => {
  const world = await worldFor(t)
  for (let from = 0; from < 4000; from += 40) {
    const names = Array.from({ length: 40 }, (_, i) => from + i)
    world.publish(0, names, day, false, false)
    if (from % 400 === 0)
      world.enlist(
        1,
        names.map((name) => name + 100_000),
        day,
        false,
        9,
      )
  }
  world.restart(0)
  const all = Array.from({ length: 4000 }, (_, i) => i)
  for (const which of [0, 1]) world.publish(which, all, day, false, false)
})

test('rows that took the numbers of rows which were undone are read', async (t) => {
  const world = await worldFor(t)
  world.publish(0, [1, 2, 3], day, true, false)
  world.publish(1, [4, 5, 6], day, false, false)
  world.publish(0, [4, 5, 6], day, false, false)
  world.enlist(0, [11, 12, 13], day, true, 9)
  world.publish(1, [14, 15, 16], day, false, false)
  world.enlist(0, [14, 15, 16], day, false, 9)
})

test('a run that another store merged away is not missed', async (t) => {
  const world = await worldFor(t)
  const names = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i)
  world.publish(0, names(0, 100), day, false, false)
  for (let i = 0; i < 40; i++) world.publish(0, names(100 + i, 1), day, false, false)
  world.publish(1, names(0, 140), day, false, false)
  for (let i = 0; i < 200; i++) world.publish(0, names(200 + i * 4, 4), day, false, false)
  world.publish(1, names(0, 1000), day, true, false)
})
