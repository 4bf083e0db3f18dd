import { setUp } from './api.ts'
import type { Bench } from './bench.ts'
import { startChild } from './child.ts'
import type { LoadCommands } from './load.ts'
import { percentile } from './percentile.ts'
import type { PathRecord } from './receiver.ts'
import { assertAccepted, journey, type Receiving, startReceiving } from './receiving.ts'
import { apiKey, type Server, type Settings, startServer, startWorker } from './server.ts'
import { emptyStore } from './store-place.ts'

const endpoints = 24
const rate = 20
const warmUpSeconds = 4
/** Something happens to the fleet this long after a measurement has begun. */
const leadMs = 500
const lookEveryMs = 250
const looks = 120

/** How long deliveries took while something happened to the fleet, from accepted to arrived, and how many were repeated. */
export interface Stall {
  readonly p99Ms: number
  readonly worstMs: number
  readonly repeated: number
}

/** A server and workers on one database with a steady load, whose members come and go. */
export interface Fleet {
  readonly receiving: Receiving
  startWorker(): Promise<Server>
  /** Measures the deliveries of so many seconds, during which something happens. */
  during(seconds: number, happening: () => Promise<unknown>): Promise<Stall>
}

/** Starts a server and waits until its load is steady. `uncounted` receivers get everything, and are not measured. */
export async function openFleet(bench: Bench, settings: Settings = {}, uncounted = 0): Promise<Fleet> {
  if (bench.store !== 'postgres') throw new Error('a fleet needs --store postgres')
  const receiving = await startReceiving(bench, endpoints + uncounted)
  const place = await emptyStore(bench, 'fleet')
  const server = await startServer(bench, place, settings)
  const load = startChild<LoadCommands>('load', bench.ends)
  const url = await setUp(
    server.api,
    'fleet',
    receiving.urls.map((each) => ({ url: each, timeoutMs: 30_000 })),
  )
  const counted = new Set(receiving.urls.slice(0, endpoints).map((each) => new URL(each).pathname))
  const target = { url, key: apiKey, connections: 4, rate }

  /** The records of the receivers that are measured, once each has all of the messages. */
  const allArrived = async (own: ReadonlySet<string>): Promise<readonly PathRecord[]> => {
    for (let look = 0; look < looks; look++) {
      const records = (await receiving.receiver.ask('records')).filter(({ path }) => counted.has(path))
      const arrived = records.reduce((sum, { ids }) => sum + new Set(ids.filter((id) => own.has(id))).size, 0)
      if (arrived === own.size * endpoints) return records
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
    }
    throw new Error(`not all of ${own.size * endpoints} deliveries came`)
  }

  const during = async (seconds: number, happening: () => Promise<unknown>): Promise<Stall> => {
    await receiving.receiver.ask('reset', 'ids')
    const happened = new Promise((resolve) => setTimeout(resolve, leadMs)).then(happening)
    const sent = await load.ask('openLoop', { ...target, seconds })
    assertAccepted(sent)
    await happened
    const records = await allArrived(new Set(sent.ids))
    const { sinceAccepted } = journey(sent, records)
    const sorted = Float64Array.from(sinceAccepted).sort()
    return {
      p99Ms: percentile(sorted, 0.99),
      worstMs: percentile(sorted, 1),
      repeated: sinceAccepted.length - sent.ids.length * endpoints,
    }
  }
  await during(warmUpSeconds, async () => {})
  return { receiving, startWorker: () => startWorker(bench, place, settings), during }
}
