import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, type TestContext } from 'node:test'
import type { Clock } from '../../src/domain/clock.ts'
import { systemRandom, systemRandomText } from '../../src/runtime/random.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { StoreContext } from '../../src/store/store.ts'
import { fileTemplateVariable } from '../prepared.ts'
import { VirtualClock } from '../virtual-clock.ts'
import type { Foreign, Harness } from './conformance/harness.ts'
import { testVault } from './test-vault.ts'

/** The parts of a process that a store needs, with the given clock. */
export function contextWith(clock: Clock): StoreContext {
  return { clock, random: systemRandom, randomText: systemRandomText, vault: testVault }
}

/** A directory of its own for one test's database files. */
export class Place {
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-sqlite-'))
  readonly #users: (() => unknown)[] = []
  readonly path = join(this.#folder, 'sluice.db')

  /** `close` is called before the files go, the last comer's first. */
  closeFirst(close: () => unknown): void {
    this.#users.push(close)
  }

  /** Bound, so that it can be handed to `t.after` as it is. */
  readonly remove = async (): Promise<void> => {
    for (const close of this.#users.toReversed()) await close()
    rmSync(this.#folder, { recursive: true })
  }
}

/** A place that is there until it is removed. */
export function temporaryPlace(): Place {
  return new Place()
}

/** A place that is gone when the test ends. */
export function placeFor(t: TestContext): Place {
  const place = temporaryPlace()
  t.after(() => place.remove())
  return place
}

let template: Promise<string> | undefined
let own: Place | undefined

after(() => own?.remove())

/** A place with a file that has all tables: a copy of one that the run, or else this process, migrated once. */
export async function migratedPlace(): Promise<Place> {
  template ??= makeTemplate()
  const place = temporaryPlace()
  copyFileSync(await template, place.path)
  return place
}

async function makeTemplate(): Promise<string> {
  const given = process.env[fileTemplateVariable]
  if (given !== undefined) return given
  own = temporaryPlace()
  const store = await openSqliteStore(contextWith(new VirtualClock()), { path: own.path, role: 'owner' })
  await store.close()
  return own.path
}

/** A new file with an owning store whose time stands still until the test moves it. */
export async function openSqliteHarness(): Promise<Harness> {
  const clock = new VirtualClock()
  const place = await migratedPlace()
  const store = await openSqliteStore(contextWith(clock), { path: place.path, role: 'owner' })
  return {
    store,
    pass: (ms) => clock.advance(ms),
    async sql(text) {
      using db = new DatabaseSync(place.path)
      db.exec(text)
    },
    foreign: async () => foreignTo(place.path),
    async elsewhere() {
      const other = await migratedPlace()
      const copy = await openSqliteStore(contextWith(clock), { path: other.path, role: 'owner' })
      other.closeFirst(() => copy.close())
      const foreign = foreignTo(other.path)
      return { ...foreign, close: () => foreign.close().then(other.remove) }
    },
    async close() {
      await store.close()
      await place.remove()
    },
  }
}

function foreignTo(path: string): Foreign {
  const db = new DatabaseSync(path, { timeout: 5000 })
  return {
    connection: db,
    run: async (sql) => db.exec(sql),
    rows: async (sql) =>
      db
        .prepare(sql)
        .all()
        .map((row) => ({ ...row })),
    close: async () => db.close(),
  }
}
