import { setUp } from '../api.ts'
import type { Bench, Figures, Scenario } from '../bench.ts'
import { type Child, startChild } from '../child.ts'
import type { LoadCommands } from '../load.ts'
import { latencyFigures } from '../percentile.ts'
import { postgresUs } from '../postgres.ts'
import { assertAccepted, journey, type Receiving, startReceiving } from '../receiving.ts'
import { apiKey, type Server, startServer, startWorker } from '../server.ts'
import { emptyStore } from '../store-place.ts'

const endpoints = 6
const rate = 300
const seconds = 15
const warmUpSeconds = 5
const connections = 16
/** The server is one of them. SQLite has one owner. */
const workers = { sqlite: 1, postgres: 4 }
/** The reference publishes as many messages as fast as it can. */
const flooded = rate * seconds

/**
 * A live stream, far below what can be sent: every delivery meets an empty queue, so that nothing is saved by doing a lot at
 * once. The reference is the same stream at once, with one server: its deliveries come in full batches.
 */
export const trickle: Scenario = {
  summary:
    'the cost of a live delivery at 300 messages/s to 6 endpoints with four workers, against the same in a flood',
  targets: {
    sqlite: [],
    postgres: [
      { figure: 'postgresUsPerDelivery', atMost: 80 },
      { figure: 'rowsReadPerDelivery', atMost: 1.2 },
    ],
  },

  async run(bench): Promise<Figures> {
    const receiving = await startReceiving(bench, endpoints)
    const load = startChild<LoadCommands>('load', bench.ends)
    const place = await emptyStore(bench, 'trickle')
    const server = await startServer(bench, place)
    const url = await setUp(
      server.api,
      'bench',
      receiving.urls.map((to) => ({ url: to })),
    )
    const target = { url, key: apiKey, connections }
    const measure = measuring(bench, receiving, load)
    bench.note('the same in a flood')
    await measure([server], { ...target, seconds: 60, count: flooded })
    const flood = await measure([server], { ...target, seconds: 60, count: flooded })

    const all = [server]
    while (all.length < workers[bench.store]) all.push(await startWorker(bench, place))
    bench.note(`${rate} messages/s with ${all.length} workers`)
    await measure(all, { ...target, rate, seconds: warmUpSeconds })
    const live = await measure(all, { ...target, rate, seconds })
    for (const each of all) await each.stop()
    return {
      ...(bench.store === 'postgres' && {
        postgresUsPerDelivery: live.postgresUs,
        floodPostgresUsPerDelivery: flood.postgresUs,
        ratio: live.postgresUs / flood.postgresUs,
        rowsReadPerDelivery: live.rowsRead,
      }),
      cpuUsPerDelivery: live.cpuUs,
      floodCpuUsPerDelivery: flood.cpuUs,
      statementsPerDelivery: live.statements,
      ...live.latency,
      deliveries: live.deliveries,
      workers: all.length,
    }
  },
}

type Load = Parameters<LoadCommands['closedLoop']>[0] | Parameters<LoadCommands['openLoop']>[0]

/** Measures the cost of a delivery, its share of the publish included, until all have come. */
function measuring(bench: Bench, { receiver }: Receiving, load: Child<LoadCommands>) {
  return async (servers: readonly Server[], published: Load) => {
    await receiver.ask('reset', 'ids')
    const before = await spentBy(bench, servers)
    const sent = await ('rate' in published ? load.ask('openLoop', published) : load.ask('closedLoop', published))
    assertAccepted(sent)
    const deliveries = sent.accepted * endpoints
    const delivered = await receiver.ask('until', { count: deliveries, quietMs: 10_000 })
    if (delivered < deliveries)
      throw new Error(`only ${delivered} of ${deliveries} deliveries came, then none for 10 s`)
    const after = await spentBy(bench, servers)
    return {
      deliveries,
      postgresUs: (after.postgresUs - before.postgresUs) / deliveries,
      cpuUs: (after.cpuUs - before.cpuUs) / deliveries,
      statements: (after.statements - before.statements) / deliveries,
      rowsRead: (after.rowsRead - before.rowsRead) / deliveries,
      latency: latencyFigures(journey(sent, await receiver.ask('records')).sinceAccepted),
    }
  }
}

async function spentBy(bench: Bench, servers: readonly Server[]) {
  const sum = { postgresUs: postgresUs(bench), cpuUs: 0, statements: 0, rowsRead: 0 }
  for (const server of servers) {
    const { cpuUs, statements, rowsRead } = await server.spent()
    sum.cpuUs += cpuUs
    sum.statements += statements
    sum.rowsRead += rowsRead
  }
  return sum
}
