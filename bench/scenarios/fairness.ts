import { setUp } from '../api.ts'
import type { Bench, Figures, Scenario } from '../bench.ts'
import { type Child, startChild } from '../child.ts'
import type { LoadCommands, LoadReport } from '../load.ts'
import { latencyFigures, median, percentile } from '../percentile.ts'
import { assertAccepted, journey, type Receiving, startReceiving } from '../receiving.ts'
import { apiKey, startServer } from '../server.ts'
import { emptyStore } from '../store-place.ts'

const tenants = 9
const rate = 10
const warmUpSeconds = 2
const rounds = 3
/** 5,000 messages for 20 endpoints: 100,000 deliveries. */
const floodMessages = 5000
const floodEndpoints = 20
const flood = floodMessages * floodEndpoints

/**
 * One tenant publishes 100,000 deliveries as fast as it is answered; nine others send ten messages a second each, as they
 * do without it. Only what they published before the last of the flood had arrived counts.
 */
export const fairness: Scenario = {
  summary: "nine tenants' latency at 10/s each while a tenth floods 100,000 deliveries, against without it",
  targets: {
    sqlite: [{ figure: 'p99Ratio', atMost: 1.5 }],
    postgres: [{ figure: 'p99Ratio', atMost: 1.5 }],
  },

  async run(bench): Promise<Figures> {
    const parts: Parts = {
      receiving: await startReceiving(bench, tenants + floodEndpoints),
      steady: startChild<LoadCommands>('load', bench.ends),
      flooding: startChild<LoadCommands>('load', bench.ends),
    }
    const alone: Round[] = []
    const beside: Round[] = []
    for (let round = 1; round <= rounds; round++) {
      beside.push(await measure(bench, parts, `beside_${round}`, true))
      const seconds = beside.at(-1)?.seconds ?? 0
      alone.push(await measure(bench, parts, `alone_${round}`, false, seconds))
    }
    const byTenant = Array.from({ length: tenants }, (_, tenant) => {
      const aloneP99Ms = p99Of(alone.flatMap((round) => round.latencies[tenant] ?? []))
      const besideP99Ms = p99Of(beside.flatMap((round) => round.latencies[tenant] ?? []))
      return { tenant: tenant + 1, aloneP99Ms, besideP99Ms, ratio: besideP99Ms / aloneP99Ms }
    })
    const aloneAll = alone.map((round) => latencyFigures(round.latencies.flat()))
    const besideAll = beside.map((round) => latencyFigures(round.latencies.flat()))
    const aloneP99Ms = median(aloneAll.map(({ p99Ms }) => p99Ms))
    const besideP99Ms = median(besideAll.map(({ p99Ms }) => p99Ms))
    return {
      p99Ratio: besideP99Ms / aloneP99Ms,
      aloneP99Ms,
      besideP99Ms,
      aloneP50Ms: median(aloneAll.map(({ p50Ms }) => p50Ms)),
      besideP50Ms: median(besideAll.map(({ p50Ms }) => p50Ms)),
      worstTenantRatio: Math.max(...byTenant.map(({ ratio }) => ratio)),
      floodPerSec: flood / median(beside.map(({ seconds }) => seconds)),
      byTenant,
    }
  },
}

interface Parts {
  readonly receiving: Receiving
  readonly steady: Child<LoadCommands>
  readonly flooding: Child<LoadCommands>
}

interface Round {
  /** Milliseconds from accepted to arrived, by tenant. */
  readonly latencies: readonly (readonly number[])[]
  /** From the first publish of the flood to its last arrival. */
  readonly seconds: number
}

/** How long the nine send beside the flood at least, and at most without it. */
const longestSeconds = 12

async function measure(bench: Bench, parts: Parts, name: string, floods: boolean, seconds = 0): Promise<Round> {
  bench.note(name)
  const { receiver, urls } = parts.receiving
  const server = await startServer(bench, await emptyStore(bench, name))
  const targets: string[] = []
  for (const url of urls.slice(0, tenants)) {
    targets.push(await setUp(server.api, `tenant ${targets.length + 1}`, [{ url }]))
  }
  const floodUrls = urls.slice(tenants).map((url) => ({ url }))
  const floodTarget = await setUp(server.api, 'flood', floodUrls)
  const send = (forSeconds: number): Promise<LoadReport[]> =>
    Promise.all(
      targets.map((url) =>
        parts.steady.ask('openLoop', { url, key: apiKey, connections: 2, rate, seconds: forSeconds }),
      ),
    )
  await send(warmUpSeconds)
  await receiver.ask('until', { count: tenants * rate * warmUpSeconds, quietMs: 3000 })
  await receiver.ask('reset', 'ids')

  const flooding = floods
    ? parts.flooding.ask('closedLoop', {
        url: floodTarget,
        key: apiKey,
        connections: 32,
        seconds: 60,
        count: floodMessages,
      })
    : undefined
  const reports = await send(floods ? longestSeconds : Math.max(2, Math.min(longestSeconds, seconds)))
  const flooded = await flooding
  for (const report of reports) assertAccepted(report)
  if (flooded) assertAccepted(flooded)
  const expected = reports.reduce((sum, { accepted }) => sum + accepted, 0) + (flooded?.accepted ?? 0) * floodEndpoints
  const delivered = await receiver.ask('until', { count: expected, quietMs: 5000 })
  if (delivered < expected) throw new Error(`${name}: only ${delivered} of ${expected} deliveries came`)
  const records = await receiver.ask('records')
  await server.stop()

  const paths = new Set(floodUrls.map(({ url }) => new URL(url).pathname))
  const lastOfFlood = records.reduce(
    (last, { path, stamps }) => (paths.has(path) ? Math.max(last, stamps.at(-1) ?? 0) : last),
    0,
  )
  const latencies = reports.map((report) => {
    const until = flooded ? lastOfFlood : Number.POSITIVE_INFINITY
    const during = report.acceptedAt.findLastIndex((at) => at < until) + 1
    const ids = report.ids.slice(0, during)
    return journey({ ...report, ids }, records).sinceAccepted
  })
  return { latencies, seconds: flooded ? (lastOfFlood - flooded.startedAt) / 1000 : seconds }
}

function p99Of(values: readonly number[]): number {
  return percentile(Float64Array.from(values).sort(), 0.99)
}
