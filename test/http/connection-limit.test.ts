import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { systemClock } from '../../src/runtime/clock.ts'
import { configOf } from '../../src/runtime/config.ts'
import { eventually } from '../e2e/eventually.ts'
import { openApi } from './api.ts'

const atMost = 16
const request = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`
const ping = request('/api/v1/health/ping')

/** A client, and what became of its connection. */
class Client {
  readonly socket: Socket
  said = ''
  isClosed = false

  constructor(port: number, localAddress: string) {
    this.socket = connect({ port, host: '127.0.0.1', localAddress })
    this.socket.on('error', () => {})
    this.socket.on('data', (bytes) => {
      this.said += bytes
    })
    this.socket.on('close', () => {
      this.isClosed = true
    })
  }

  /** Whether its request is answered; false when the connection is closed instead. */
  async isAnswered(): Promise<boolean> {
    this.said = ''
    if (!this.isClosed) this.socket.write(ping)
    await eventually('an answer or the end', () => this.said.includes('204') || this.isClosed)
    return this.said.includes('204')
  }
}

/** A server that takes 16 connections, by a clock that stands still until it is put forward. */
async function small(t: TestContext) {
  let nowMs = 0
  let timesFull = 0
  const clock = { ...systemClock, steady: () => nowMs }
  const limits = { ...configOf({}), maxConnections: atMost }
  const { app, store } = await openApi({ clock, limits, onFull: () => timesFull++ })
  app.addHook('onRequest', ({ url }, _reply, done) => {
    // Never answered.
    if (!url.endsWith('?parked')) done()
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const clients: Client[] = []
  t.after(async () => {
    for (const { socket } of clients) socket.destroy()
    app.server.closeAllConnections()
    await app.close()
    await store.close()
  })
  /** Connects clients of one address, each after the one before is accepted. */
  const open = async (count: number, address = '127.0.0.1') => {
    const opened: Client[] = []
    for (let i = 0; i < count; i++) {
      const accepted = once(app.server, 'connection')
      opened.push(new Client(port, address))
      await accepted
    }
    clients.push(...opened)
    return opened
  }
  const park = async (those: readonly Client[]) => {
    for (const { socket } of those) {
      const begun = once(app.server, 'request')
      socket.write(request('/?parked'))
      await begun
    }
  }
  return {
    open,
    park,
    putForward: (ms: number) => {
      nowMs += ms
    },
    timesFull: () => timesFull,
  }
}

const closedOf = (clients: readonly Client[]) => clients.flatMap(({ isClosed }, i) => (isClosed ? [i] : []))

// Other systems have no 127.0.0.2 unless it is set up.
describe('when all connections are taken', { skip: process.platform !== 'linux' }, () => {
  test('a further one of the same address is closed, and a client of another address gets in', async (t) => {
    const { open, timesFull } = await small(t)
    const strangers = await open(atMost)
    assert.equal(timesFull(), 0)
    const [late] = await open(1)
    await eventually('the refusal', () => late?.isClosed === true)
    assert.deepEqual(closedOf(strangers), [])
    const [honest] = await open(1, '127.0.0.2')
    assert.equal(await honest?.isAnswered(), true)
    await eventually('a stranger gives up its place', () => closedOf(strangers).length === 1)
    assert.deepEqual(closedOf(strangers), [0])
    assert.equal(timesFull(), 2)
  })

  test('the connection that was idle for longest gives up its place after a second', async (t) => {
    const { open, putForward } = await small(t)
    const clients = await open(atMost)
    putForward(1000)
    assert.equal(await clients[0]?.isAnswered(), true)
    const [late] = await open(1)
    assert.equal(await late?.isAnswered(), true)
    await eventually('one is closed', () => closedOf(clients).length === 1)
    assert.deepEqual(closedOf(clients), [1])
  })

  test('connections with a request under way stay, those of another address first', async (t) => {
    const { open, park, putForward } = await small(t)
    const [honest] = await open(1, '127.0.0.2')
    const busy = await open(atMost - 1)
    await park(busy)
    putForward(60_000)
    const [late] = await open(1)
    await eventually('the refusal', () => late?.isClosed === true)
    assert.deepEqual(closedOf(busy), [])
    const [newcomer] = await open(1, '127.0.0.3')
    assert.equal(await newcomer?.isAnswered(), true)
    await eventually('the newest gives up its place', () => closedOf(busy).length === 1)
    assert.deepEqual(closedOf(busy), [atMost - 2])
    assert.equal(await honest?.isAnswered(), true)
  })

  test('a place is free again when its client hangs up', async (t) => {
    const { open, timesFull } = await small(t)
    const clients = await open(atMost)
    for (const { socket } of clients) socket.destroy()
    const isFree = async () => (await open(1))[0]?.isAnswered()
    await eventually('a free place', isFree)
    const before = timesFull()
    for (const client of await open(atMost - 1)) assert.equal(await client.isAnswered(), true)
    assert.equal(timesFull(), before)
  })
})
