import { DatabaseSync } from 'node:sqlite'
import type { TestContext } from 'node:test'
import pg from 'pg'
import { type Enqueued, type NewMessage, openSluice, type Sluice, type SluiceOptions } from '../../src/index.ts'
import { atEnd } from '../e2e/at-end.ts'
import type { Place } from '../e2e/place.ts'
import { testEncryptionKey } from '../store/test-vault.ts'

/** Opens the library on a place; closed when the test ends. */
export async function embed(t: TestContext, place: Place, options: Partial<SluiceOptions> = {}): Promise<Sluice> {
  const sluice = await openSluice({
    store: place.store,
    encryptionKey: testEncryptionKey,
    allowNetworks: ['127.0.0.0/8'],
    logLevel: 'error',
    ...options,
  })
  atEnd(t, () => sluice.close())
  return sluice
}

/** A program's own connection to the store's database, the same to a test whichever database that is. */
export interface Own {
  run(sql: string): Promise<void>
  publishWith(sluice: Sluice, app: string, message: NewMessage): Promise<Enqueued>
}

export async function connect(t: TestContext, place: Place): Promise<Own> {
  if (place.dialect === 'sqlite') {
    const db = new DatabaseSync(place.store.slice('sqlite:'.length), { timeout: 5000 })
    atEnd(t, () => db.close())
    return {
      run: async (sql) => db.exec(sql),
      publishWith: async (sluice, app, message) => sluice.publishWith(db, app, message),
    }
  }
  const client = new pg.Client({ connectionString: place.store })
  await client.connect()
  atEnd(t, () => client.end())
  return {
    run: async (sql) => void (await client.query(sql)),
    publishWith: (sluice, app, message) => sluice.publishWith(client, app, message),
  }
}
