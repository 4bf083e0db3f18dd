import { setUp } from './api.ts'
import type { Bench, Figures, Target } from './bench.ts'
import { type Child, startChild } from './child.ts'
import type { LoadCommands, LoadReport } from './load.ts'
import { addTenants, type Tenant } from './many-endpoints.ts'
import { percentile } from './percentile.ts'
import { assertAccepted, journey, type Receiving, startReceiving } from './receiving.ts'
import { apiKey, type Server, startServer } from './server.ts'
import { emptyStore } from './store-place.ts'

const quietRate = 50
const quietSeconds = 5
const warmUpSeconds = 2
/** The quiet tenant is measured in parts of this length until the spike is over. */
const partSeconds = 1
const newcomers = 200
const newcomerRate = 20
const origins = 100
const warmEndpoints = 100
const connections = 16

export const spikeTargets: readonly Target[] = [
  { figure: 'p99AddedMs', atMost: 20 },
  { figure: 'cpuRatio', atMost: 1.5 },
  { figure: 'rssMb', atMost: 400 },
]

/** A spike that reaches many lanes at once: each application gets one message for all of its endpoints. */
export interface Spike {
  readonly applications: number
  readonly endpointsEach: number
}

/**
 * Measures a quiet tenant alone and beside a spike, and the processor time of the spike's deliveries against deliveries of
 * lanes that are owned already. Newcomers are tenants whose lane rests until their one message: they show what a tenant
 * without an owner waits for.
 */
export async function measureBeside(bench: Bench, spike: Spike): Promise<Figures> {
  const quiet = await startReceiving(bench, 1)
  const flooded = await startReceiving(bench, origins)
  const place = await emptyStore(bench, 'breadth')
  const count = spike.applications * spike.endpointsEach
  bench.note(`making ${count} endpoints`)
  const tenants = await addTenants(place, spike.applications, spike.endpointsEach, (n) => urlIn(flooded, n))
  const server = await startServer(bench, place)
  const load = startChild<LoadCommands>('load', bench.ends)
  const spiking = startChild<LoadCommands>('load', bench.ends)
  const arriving = startChild<LoadCommands>('load', bench.ends)
  const [quietUrl = ''] = quiet.urls
  const steady = {
    url: await setUp(server.api, 'quiet', [{ url: quietUrl }]),
    key: apiKey,
    connections: 2,
    rate: quietRate,
  }
  const newUrls: string[] = []
  for (let n = 0; n < newcomers; n++) newUrls.push(await setUp(server.api, `newcomer ${n}`, [{ url: quietUrl }]))
  const warmUrl = await setUp(
    server.api,
    'warm',
    Array.from({ length: warmEndpoints }, (_, n) => ({ url: urlIn(flooded, n) })),
  )

  bench.note('the quiet tenant alone')
  await load.ask('openLoop', { ...steady, seconds: warmUpSeconds })
  await quiet.receiver.ask('until', { count: quietRate * warmUpSeconds, quietMs: 3000 })
  await quiet.receiver.ask('reset', 'ids')
  const alone = await load.ask('openLoop', { ...steady, seconds: quietSeconds })
  const aloneMs = await arrivals(quiet, [alone])

  // The same number of publishes and of deliveries. The second half is measured, when lanes and code are warm.
  bench.note('deliveries of warm lanes')
  const warmMessages = Math.ceil(count / warmEndpoints / 2)
  const warm = { url: warmUrl, key: apiKey, connections, seconds: 60, count: warmMessages }
  await flood(flooded, spiking, server, warm, warmMessages * warmEndpoints)
  const warmUs = await flood(flooded, spiking, server, warm, warmMessages * warmEndpoints)

  bench.note('the spike')
  await quiet.receiver.ask('reset', 'ids')
  const urls = tenants.map(({ id }: Tenant) => `${server.api}/app/${id}/msg`)
  const one = { url: urls, key: apiKey, connections, seconds: 120, count: urls.length }
  const newcomer = { url: newUrls, key: apiKey, connections: 2, rate: newcomerRate, seconds: newcomers / newcomerRate }
  let isOver = false
  const spiked = flood(flooded, spiking, server, one, count).finally(() => {
    isOver = true
  })
  const arrived = arriving.ask('openLoop', newcomer)
  const parts: LoadReport[] = []
  while (!isOver) parts.push(await load.ask('openLoop', { ...steady, seconds: partSeconds }))
  const spikeUs = await spiked
  const overAt = (await flooded.receiver.ask('totals')).lastAt
  const firstMs = await arrivals(quiet, [await arrived], overAt, parts)
  const besideMs = await arrivals(quiet, parts, overAt)
  await server.stop()
  return {
    p99AddedMs: percentile(besideMs, 0.99) - percentile(aloneMs, 0.99),
    aloneP50Ms: percentile(aloneMs, 0.5),
    aloneP99Ms: percentile(aloneMs, 0.99),
    aloneMaxMs: percentile(aloneMs, 1),
    besideP50Ms: percentile(besideMs, 0.5),
    besideP99Ms: percentile(besideMs, 0.99),
    besideMaxMs: percentile(besideMs, 1),
    newcomerP50Ms: percentile(firstMs, 0.5),
    newcomerP99Ms: percentile(firstMs, 0.99),
    newcomerMaxMs: percentile(firstMs, 1),
    publishP99Ms: Math.max(...parts.map(({ latency }) => latency.p99Ms)),
    cpuRatio: spikeUs.cpuUs / warmUs.cpuUs,
    cpuUsPerDelivery: spikeUs.cpuUs,
    warmCpuUsPerDelivery: warmUs.cpuUs,
    deliveriesPerSec: count / spikeUs.seconds,
    warmPerSec: (warmMessages * warmEndpoints) / warmUs.seconds,
    statementsPerDelivery: spikeUs.statements,
    longestTurnMs: spikeUs.longestTurnMs,
    rssMb: server.peakRssMb(),
  }
}

function urlIn({ urls }: Receiving, n: number): string {
  return (urls[n % urls.length] as string).replace(/\/\d+$/, '/spike')
}

/** Publishes until `count` deliveries have arrived; answers what one of them cost. */
async function flood(
  { receiver }: Receiving,
  load: Child<LoadCommands>,
  server: Server,
  publishes: Parameters<LoadCommands['closedLoop']>[0],
  count: number,
): Promise<{
  readonly cpuUs: number
  readonly statements: number
  readonly seconds: number
  readonly longestTurnMs: number
}> {
  await receiver.ask('reset', 'counts')
  const before = await server.spent()
  const sent = await load.ask('closedLoop', publishes)
  assertAccepted(sent)
  const delivered = await receiver.ask('until', { count, quietMs: 20_000 })
  if (delivered < count) throw new Error(`only ${delivered} of ${count} deliveries came, then none for 20 s`)
  const after = await server.spent()
  const { lastAt } = await receiver.ask('totals')
  return {
    cpuUs: (after.cpuUs - before.cpuUs) / count,
    statements: (after.statements - before.statements) / count,
    seconds: (lastAt - sent.startedAt) / 1000,
    longestTurnMs: after.longestTurnMs,
  }
}

/** From accepted to arrived, sorted, of what was accepted before an instant. `others` arrive at the same receiver. */
async function arrivals(
  { receiver }: Receiving,
  reports: readonly LoadReport[],
  until = Number.POSITIVE_INFINITY,
  others: readonly LoadReport[] = [],
): Promise<Float64Array> {
  for (const report of reports) assertAccepted(report)
  const expected = [...reports, ...others].reduce((sum, { accepted }) => sum + accepted, 0)
  const delivered = await receiver.ask('until', { count: expected, quietMs: 10_000 })
  if (delivered < expected) throw new Error(`only ${delivered} of ${expected} deliveries of quiet tenants came`)
  const records = await receiver.ask('records')
  const values = reports.flatMap((report) => {
    const during = report.acceptedAt.findLastIndex((at) => at < until) + 1
    return journey({ ...report, ids: report.ids.slice(0, during) }, records).sinceAccepted
  })
  return Float64Array.from(values).sort()
}
