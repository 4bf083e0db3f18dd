import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { isLong, Target } from './attack.ts'
import { type Flood, flood, hangUp, pipelined, type Stranger } from './strangers.ts'

/** Attacks of strangers on connections alone. The store takes no part in them. */
const store = 'sqlite'

const ping = 'GET /api/v1/health/ping HTTP/1.1\r\nhost: a\r\n\r\n'
const requestOf = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`

interface Pipelined extends Flood {
  /** The largest size of the heap, in MB, and that of the process. */
  readonly heapMb?: number
  readonly peakMbAtMost?: number
}

const floods: Readonly<Record<string, Pipelined>> = {
  '1 × 2,000 pings': { connections: 1, bytes: ping.repeat(2000), reads: true },
  '20 × 2,000 pings': { connections: 20, bytes: ping.repeat(2000), reads: true },
  ...(isLong
    ? {
        '100 × 2,000 pings': { connections: 100, bytes: ping.repeat(2000), reads: true },
        '50 × 5,000 pages, unread': { connections: 50, bytes: requestOf('/docs').repeat(5000), reads: false },
        '1,000 × 2,400 pages, a heap of 256 MB': {
          connections: 1000,
          bytes: requestOf('/').repeat(2400),
          reads: true,
          heapMb: 256,
          peakMbAtMost: 400,
        },
        '1,000 × 2,400 pages, unread, a heap of 256 MB': {
          connections: 1000,
          bytes: requestOf('/').repeat(2400),
          reads: false,
          heapMb: 256,
          peakMbAtMost: 400,
        },
      }
    : {}),
}

for (const [name, { heapMb, peakMbAtMost = Infinity, ...strangers }] of Object.entries(floods)) {
  test(`strangers who send ${name} without waiting hold nobody up, and a client gets its 16 answers in order`, async (t) => {
    const settings = heapMb === undefined ? {} : { NODE_OPTIONS: `--max-old-space-size=${heapMb}` }
    const target = await Target.share(t, store, settings)
    const honest = await target.connect()
    const paths = Array.from({ length: 16 }, (_, i) => `/api/v1/nowhere/${i}`)
    const figures = await target.measure(`pipelining: ${name}`, async () => {
      const flooding = await flood(target.port, strangers)
      for (let round = 0; round < 5; round++) assert.deepEqual(await pipelined(honest, paths), paths)
      if (strangers.reads) await answered(flooding)
      hangUp(flooding)
    })
    assert.ok(figures.peakMb <= peakMbAtMost, `${figures.peakMb} MB`)
  })
}

/** Every stranger has read an answer. */
function answered(strangers: readonly Stranger[]): Promise<true> {
  return eventually('an answer for each stranger', () => strangers.every(({ received }) => received > 0))
}

test('strangers whose headers never end are cut off in slices', async (t) => {
  const connections = isLong ? 5000 : 400
  const target = await Target.share(t, store, { SLUICE_REQUEST_TIMEOUT: isLong ? '10s' : '1s' })
  await target.measure(`${connections} connections with slow headers`, async () => {
    const strangers = await flood(target.port, { connections, bytes: 'GET / HTTP/1.1\r\nhost: a\r\n', reads: true })
    // Those for whom there was no place are cut off at once.
    const isOver = ({ received, isClosed }: Stranger) => received > 300 || isClosed
    await eventually('every stranger has its 408', () => strangers.every(isOver))
    hangUp(strangers)
  })
})

test('strangers who ask for the reference together hold nobody up', async (t) => {
  const connections = isLong ? 64 : 16
  const target = await Target.share(t, store)
  await target.measure(`${connections} × 16 × /api/v1/openapi.json`, async () => {
    const bytes = requestOf('/api/v1/openapi.json').repeat(16)
    const strangers = await flood(target.port, { connections, bytes, reads: true })
    await answered(strangers)
    hangUp(strangers)
  })
})

test('strangers who connect at once, and hang up at once, hold nobody up', async (t) => {
  const [connections, places] = isLong ? [10_000, 2000] : [1000, 200]
  const target = await Target.share(t, store, { SLUICE_MAX_CONNECTIONS: String(places) })
  await target.measure(`${connections} connects`, async () => {
    const strangers = await flood(target.port, { connections, bytes: '', reads: true })
    await eventually('the strangers have no more than all places', () => {
      return strangers.filter(({ isClosed }) => !isClosed).length <= places
    })
    // Other systems have no such address unless it is set up.
    if (process.platform === 'linux') {
      const newcomer = await target.connect('127.0.0.2')
      assert.deepEqual(await pipelined(newcomer, ['/api/v1/nowhere']), ['/api/v1/nowhere'])
    }
    hangUp(strangers)
    // The server has seen them all go once it has a place for a new client of their address.
    await eventually('a place', async () => {
      const late = await target.connect()
      late.write(ping)
      return new Promise<boolean>((resolve) => {
        late.once('data', () => resolve(true))
        late.once('close', () => resolve(false))
      })
    })
  })
})
