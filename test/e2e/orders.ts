import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { openSluice } from '../../src/index.ts'

/**
 * A shop that takes orders until it is killed: each order and its message in one transaction, every third one rolled
 * back. It prints the orders that it knows to be committed. It does not announce the commits to Sluice.
 */
const { STORE: store = '', ENCRYPTION_KEY: encryptionKey, ANNOUNCE: announce } = process.env
const sluice = await openSluice({ store, encryptionKey, deliver: false })
const insert = (n: number) => `insert into shop_order (n) values (${n})`
const message = (n: number) => ({ eventType: 'order.created', payload: `{"n":${n}}` })

const take = store.startsWith('sqlite:') ? onSqlite() : await onPostgres()
for (let n = 1; ; n++) await take(n)

function onSqlite() {
  const db = new DatabaseSync(store.slice('sqlite:'.length), { timeout: 20_000 })
  return async (n: number) => {
    db.exec('begin immediate')
    db.exec(insert(n))
    const enqueued = sluice.publishWith(db, 'shop', message(n))
    db.exec(n % 3 === 0 ? 'rollback' : 'commit')
    finish(n, enqueued)
    // Lets the output go.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

async function onPostgres() {
  const client = new pg.Client({ connectionString: store })
  await client.connect()
  return async (n: number) => {
    await client.query('begin')
    await client.query(insert(n))
    const enqueued = await sluice.publishWith(client, 'shop', message(n))
    await client.query(n % 3 === 0 ? 'rollback' : 'commit')
    finish(n, enqueued)
  }
}

function finish(n: number, enqueued: { committed(): void }): void {
  if (n % 3 === 0) return
  if (announce === 'yes') enqueued.committed()
  console.log(`committed ${n}`)
}
