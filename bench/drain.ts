import type { Bench } from './bench.ts'
import type { Child } from './child.ts'
import type { ReceiverCommands } from './receiver.ts'
import { startServer } from './server.ts'
import { steadyRate } from './steady-rate.ts'

/** How a server emptied a backlog. */
export interface Drained {
  readonly perSec: number
  readonly statementsPerDelivery: number
  /** Processor time of the whole process, its start included. Unlike the rate, it hardly minds a busy machine. */
  readonly cpuUsPerDelivery: number
  readonly rssMb: number
  readonly connections: number
}

/** Starts a server on a store with `count` deliveries waiting and measures at the receiver until all have come. */
export async function drain(
  bench: Bench,
  receiver: Child<ReceiverCommands>,
  place: string,
  count: number,
): Promise<Drained> {
  await receiver.ask('reset', 'counts')
  const server = await startServer(bench, place)
  const delivered = await receiver.ask('until', { count, quietMs: 10_000 })
  const { timeline, peakConnections } = await receiver.ask('totals')
  const { statements, cpuUs } = await server.spent()
  await server.stop()
  if (delivered < count) throw new Error(`only ${delivered} of ${count} deliveries came, then none for 10 s`)
  return {
    perSec: steadyRate(timeline),
    statementsPerDelivery: statements / delivered,
    cpuUsPerDelivery: cpuUs / delivered,
    rssMb: server.peakRssMb(),
    connections: peakConnections,
  }
}
