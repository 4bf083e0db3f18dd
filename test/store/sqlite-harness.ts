import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Clock } from '../../src/domain/clock.ts'
import { systemRandom, systemRandomText } from '../../src/runtime/random.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { StoreContext } from '../../src/store/store.ts'
import { VirtualClock } from '../virtual-clock.ts'
import type { Harness } from './conformance/harness.ts'

/** What a store needs of a process, with the given clock. */
export function contextWith(clock: Clock): StoreContext {
  return { clock, random: systemRandom, randomText: systemRandomText }
}

/** A directory of its own for one test's database files. */
export interface Place {
  readonly path: string
  remove(): void
}

export function temporaryPlace(): Place {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-sqlite-'))
  return { path: join(folder, 'sluice.db'), remove: () => rmSync(folder, { recursive: true }) }
}

/** A new file with an owning store whose time stands still until told otherwise. */
export async function openSqliteHarness(): Promise<Harness> {
  const place = temporaryPlace()
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: place.path, role: 'owner' })
  return {
    store,
    pass: (ms) => clock.advance(ms),
    async sql(text) {
      using db = new DatabaseSync(place.path)
      db.exec(text)
    },
    async close() {
      await store.close()
      place.remove()
    },
  }
}
