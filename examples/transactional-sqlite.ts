/**
 * An order and its webhook in one SQLite transaction: either both exist or neither. The orders live in Sluice's own file,
 * on a connection of the program's own.
 *
 *     node examples/transactional-sqlite.ts [FILE]
 */
import { DatabaseSync } from 'node:sqlite'
import { type Enqueued, openSluice } from 'sluice'

const file = process.argv[2] ?? './data/transactional.db'
const sluice = await openSluice({ store: `sqlite:${file}` })
await sluice.applications.getOrCreate({ uid: 'shop', name: 'Shop' })

const db = new DatabaseSync(file, { timeout: 5000 })
db.exec('create table if not exists shop_order (id integer primary key, item text not null)')

/** Takes an order. Nothing is awaited between `begin` and `commit`, so the file is never held for long. */
function order(item: string, paid: boolean): Enqueued {
  db.exec('begin immediate')
  try {
    const { lastInsertRowid: id } = db.prepare('insert into shop_order (item) values (?)').run(item)
    const enqueued = sluice.publishWith(db, 'shop', { eventType: 'order.created', payload: { id: Number(id), item } })
    if (!paid) throw new Error(`the ${item} was not paid`)
    db.exec('commit')
    enqueued.committed()
    return enqueued
  } catch (error) {
    db.exec('rollback')
    throw error
  }
}

const { id } = order('lamp', true)
console.log(`ordered a lamp and published ${id}`)
try {
  order('piano', false)
} catch (error) {
  console.log(`${(error as Error).message}: no order, no webhook`)
}
const orders = db.prepare('select item from shop_order').all()
const messages = await sluice.request('GET', '/app/shop/msg')
console.log(`${orders.length} order, ${messages.data.length} message`)

db.close()
await sluice.close()
