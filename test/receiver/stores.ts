import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { memoryStore, type OnceStore } from '../../receiver/src/index.ts'
import { postgresStore } from '../../receiver/src/postgres.ts'
import { redisStore } from '../../receiver/src/redis.ts'
import { sqliteStore } from '../../receiver/src/sqlite.ts'
import { redisClient } from './redis-server.ts'

export type StoreKind = 'memory' | 'sqlite' | 'postgres' | 'redis'

export interface OpenedStore {
  readonly store: OnceStore
  close(): Promise<void>
}

/** A store of the kind, at a place that other connections and processes can open too: a file or a URL. */
export async function openStore(kind: StoreKind, place: string): Promise<OpenedStore> {
  switch (kind) {
    case 'memory':
      return { store: memoryStore(), async close() {} }
    case 'sqlite': {
      const database = openFile(place)
      return { store: sqliteStore(database), close: async () => database.close() }
    }
    case 'postgres': {
      const pool = new pg.Pool({ connectionString: place })
      pool.on('error', () => {})
      return { store: postgresStore(pool), close: () => pool.end() }
    }
    case 'redis': {
      const client = await redisClient(place)
      return { store: redisStore((args) => client.sendCommand(args)), close: async () => client.destroy() }
    }
  }
}

export function openFile(path: string): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: 10_000 })
  database.exec('pragma journal_mode = wal')
  return database
}

/** A path for a SQLite file, removed with its folder when the test ends. */
export function newFile(t: { after(end: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-receiver-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'handled.db')
}
