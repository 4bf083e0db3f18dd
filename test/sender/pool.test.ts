import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import type { Clock } from '../../src/domain/clock.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { createConnector, type Origin } from '../../src/sender/connect.ts'
import { Egress } from '../../src/sender/egress.ts'
import { AddressPolicy } from '../../src/sender/guard.ts'
import { type Connection, Pool } from '../../src/sender/pool.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'

const policy = new AddressPolicy({ allowNetworks: ['127.0.0.0/8'] })
const connector = () =>
  createConnector({ policy, resolve: async () => [], egress: new Egress(), extraCa: [], clock: systemClock })

const originAt = (port: number): Origin => {
  const url = `http://127.0.0.1:${port}`
  return { key: url, url, host: '127.0.0.1', port, secure: false }
}

/** Sends one request on a connection, so that its socket is open. */
function use(connection: Connection): Promise<void> {
  return new Promise((resolve, reject) => {
    connection.client.dispatch(
      { path: '/', method: 'POST', body: 'x' },
      {
        onRequestStart() {},
        onResponseStart() {},
        onResponseData() {},
        onResponseEnd: () => resolve(),
        onResponseError: (_, error) => reject(error),
      },
    )
  })
}

test('the connection used last is used next, and a new one is made when none is idle', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const pool = new Pool(connector(), systemClock, 64 * 1024)
  t.after(() => pool.close())
  const origin = originAt(receiver.port)
  const [a, b] = [pool.take(origin), pool.take(origin)]
  await Promise.all([use(a), use(b)])
  pool.give(a, systemClock.steady())
  pool.give(b, systemClock.steady())

  assert.equal(pool.take(origin), b)
  assert.equal(pool.take(origin), a)
  assert.ok(pool.take(origin) !== a)
  assert.deepEqual(pool.size, { connections: 3, origins: 1 })
})

test('an origin whose last connection went takes no memory', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const pool = new Pool(connector(), systemClock, 64 * 1024)
  t.after(() => pool.close())
  const kept = pool.take(originAt(receiver.port))
  await use(kept)
  pool.give(kept, systemClock.steady())
  for (let port = 1; port <= 1000; port++) pool.drop(pool.take(originAt(port)))
  assert.deepEqual(pool.size, { connections: 1, origins: 1 })

  const gone = once(kept.client, 'disconnect')
  for (const socket of receiver.open) socket.end()
  await gone
  assert.deepEqual(pool.size, { connections: 0, origins: 0 })
})

test('no more than 256 connections of one origin are kept idle', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const pool = new Pool(connector(), systemClock, 64 * 1024)
  t.after(() => pool.close())
  const all = Array.from({ length: 260 }, () => pool.take(originAt(receiver.port)))
  await Promise.all(all.map(use))
  for (const connection of all) pool.give(connection, systemClock.steady())

  assert.deepEqual(pool.size, { connections: 256, origins: 1 })
})

test('beyond 2,048 idle connections, the one that was idle the longest is closed', async (t) => {
  const pool = new Pool(connector(), systemClock, 64 * 1024)
  t.after(() => pool.close())
  // Connections that were never used have no socket, so that 2,100 of them cost nothing here.
  const origins = Array.from({ length: 21 }, (_, n) => originAt(n + 1))
  const all = origins.flatMap((origin) => Array.from({ length: 100 }, () => ({ origin, taken: pool.takeNew(origin) })))
  for (const { taken } of all) pool.give(taken, 0)

  assert.deepEqual(pool.size, { connections: 2048, origins: 21 })
  const [first, second] = [origins[0] as Origin, origins[20] as Origin]
  const kept = Array.from({ length: 48 }, () => pool.take(first))
  assert.deepEqual(
    kept,
    all
      .slice(52, 100)
      .map(({ taken }) => taken)
      .toReversed(),
  )
  assert.ok(!all.some(({ taken }) => taken === pool.take(first)), 'its 52 oldest are gone')
  assert.equal(pool.take(second), all.at(-1)?.taken)
})

test('a connection older than a minute is not kept, however busy it is', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  let steady = 0
  const clock: Clock = { ...systemClock, steady: () => steady }
  const pool = new Pool(connector(), clock, 64 * 1024)
  t.after(() => pool.close())
  const connection = pool.take(originAt(receiver.port))
  await use(connection)
  steady = 60_000
  pool.give(connection, steady)
  assert.equal(pool.take(originAt(receiver.port)), connection)
  steady = 60_001
  pool.give(connection, steady)

  assert.deepEqual(pool.size, { connections: 0, origins: 0 })
})
