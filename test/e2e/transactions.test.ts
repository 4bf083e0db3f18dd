import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { testEncryptionKey } from '../store/test-vault.ts'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { assertNoDuplicates, ordinal } from './ledger.ts'
import { openPlace, type Place, pendingCount } from './place.ts'
import { longLease } from './program.ts'
import { Receiver } from './receiver.ts'
import { startHere } from './server-here.ts'

const shop = join(import.meta.dirname, 'orders.ts')
const enough = 60

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`a shop killed in the middle of its transactions has delivered its orders, no more and no less (${dialect})`, async (t) => {
    const { place, receiver } = await setUp(t, dialect)
    await takeOrders(t, place, 'yes')
    const orders = await committedOrders(place)
    await receiver.until('every order came', () => receiver.arrivals.length >= orders.length)
    assert.deepEqual(numbers(receiver), orders)
    await eventually('nothing waits', async () => (await pendingCount(place)) === 0)
    assertNoDuplicates(receiver)
    assert(orders.every((n) => n % 3 !== 0))
  })
}

// With Postgres the sweep for unannounced commits runs every 15 seconds; SQLite needs no announcement.
test('orders whose commit was not announced are delivered', async (t) => {
  const { place, receiver } = await setUp(t, 'sqlite')
  await takeOrders(t, place, 'no')
  const orders = await committedOrders(place)
  await receiver.until('every order came', () => receiver.arrivals.length >= orders.length)
  assert.deepEqual(numbers(receiver), orders)
})

async function setUp(t: TestContext, dialect: 'sqlite' | 'postgres') {
  const place = await openPlace(t, dialect)
  const receiver = await Receiver.listen(t)
  const program = await startHere(t, 'serve', place.store, longLease)
  const client = new Client(program.api)
  atEnd(t, () => client.close())
  await client.createApplication('shop')
  await client.createEndpoint('shop', { url: `${receiver.url}/orders` })
  await place.query('create table shop_order (n integer primary key)')
  return { place, receiver }
}

/** Runs a shop until it has committed enough orders, and kills it wherever it is then. */
async function takeOrders(t: TestContext, place: Place, announce: 'yes' | 'no'): Promise<void> {
  const child = spawn(process.execPath, [shop], {
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      STORE: place.store,
      ENCRYPTION_KEY: testEncryptionKey,
      ANNOUNCE: announce,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  atEnd(t, async () => {
    child.kill('SIGKILL')
    await exited
  })
  let printed = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    printed += text
  })
  await eventually('enough orders', () => {
    assert.equal(child.exitCode, null, 'the shop ended by itself')
    return printed.split('\n').length > enough
  })
  child.kill('SIGKILL')
  await exited
}

async function committedOrders(place: Place): Promise<number[]> {
  const rows = await place.query('select n from shop_order order by n')
  return rows.map(({ n }) => Number(n))
}

function numbers(receiver: Receiver): number[] {
  return [...new Set(receiver.arrivals.map(ordinal))].toSorted((a, b) => a - b)
}
