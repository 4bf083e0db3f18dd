/**
 * An order and its webhook in one Postgres transaction: either both exist or neither. The orders live in the same database
 * as Sluice's tables; the connection is the program's own.
 *
 *     DATABASE_URL=postgres://… SLUICE_ENCRYPTION_KEY=… node examples/transactional-postgres.ts
 */
import pg from 'pg'
import { type Enqueued, openSluice } from 'sluice'

const { DATABASE_URL: url = 'postgres://localhost/sluice', SLUICE_ENCRYPTION_KEY: encryptionKey } = process.env
// Workers elsewhere deliver (`sluice worker`); this program only publishes.
const sluice = await openSluice({ store: url, encryptionKey, deliver: false })
await sluice.applications.getOrCreate({ uid: 'shop', name: 'Shop' })

const pool = new pg.Pool({ connectionString: url })
await pool.query('create table if not exists shop_order (id serial primary key, item text not null)')

/** Takes an order. */
async function order(item: string, paid: boolean): Promise<Enqueued> {
  // A transaction belongs to one connection: take one from the pool and give it back.
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query('insert into shop_order (item) values ($1) returning id', [item])
    const payload = { id: rows[0].id, item }
    const enqueued = await sluice.publishWith(client, 'shop', { eventType: 'order.created', payload })
    if (!paid) throw new Error(`the ${item} was not paid`)
    await client.query('commit')
    enqueued.committed()
    return enqueued
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

const { id } = await order('lamp', true)
console.log(`ordered a lamp and published ${id}`)
try {
  await order('piano', false)
} catch (error) {
  console.log(`${(error as Error).message}: no order, no webhook`)
}
const orders = await pool.query('select item from shop_order')
const messages = await sluice.request('GET', '/app/shop/msg')
console.log(`${orders.rows.length} order, ${messages.data.length} message`)

await pool.end()
await sluice.close()
