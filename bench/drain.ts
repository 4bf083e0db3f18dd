import type { Bench } from './bench.ts'
import { Meter, perEvent } from './meter.ts'
import { postgresUs } from './postgres.ts'
import type { Receivers } from './receivers.ts'
import { startServer } from './server.ts'
import { steadyRate } from './steady-rate.ts'
import { type ThreadTime, threadTime } from './thread-time.ts'

/** How a server emptied a backlog. */
export interface Drained extends ThreadTime {
  readonly perSec: number
  readonly statementsPerDelivery: number
  /** Processor time of all processes of Postgres, for each delivery; not a number on SQLite. */
  readonly postgresUs: number
  readonly rssMb: number
  readonly connections: number
}

/**
 * Starts a server on a store with `count` deliveries waiting and measures at the receivers until all have come. Processor
 * times are for each delivery of the steady part.
 */
export async function drain(bench: Bench, receivers: Receivers, place: string, count: number): Promise<Drained> {
  await receivers.reset()
  const server = await startServer(bench, place)
  const onPostgres = bench.store === 'postgres'
  const meter = new Meter(() => ({
    ...threadTime(server.pid),
    postgresUs: onPostgres ? postgresUs(bench) : Number.NaN,
  }))
  const delivered = await receivers.until(count, 10_000)
  meter[Symbol.dispose]()
  const { timeline, startedAt, peakConnections } = await receivers.totals()
  const { statements } = await server.spent()
  await server.stop()
  if (delivered < count) throw new Error(`only ${delivered} of ${count} deliveries came, then none for 10 s`)
  return {
    perSec: steadyRate(timeline),
    statementsPerDelivery: statements / delivered,
    ...perEvent(meter, timeline, startedAt),
    rssMb: server.peakRssMb(),
    connections: peakConnections,
  }
}
