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
const rounds = 2
/** 5,000 messages for 20 endpoints: 100,000 deliveries. */
const floodMessages = 5000
const floodEndpoints = 20
const flood = floodMessages * floodEndpoints
/** As long as a receiver across a network takes. Answers at once would keep every core of a small machine busy. */
const floodAnswerMs = 40

/**
 * One tenant publishes 100,000 deliveries as fast as it is answered, for receivers that take 40 ms each; nine others send
 * ten messages a second each, as they do without it. Only what they published before the last of the flood had arrived
 * counts. The flood has a receiver and a publisher of its own: what it costs those is not what is measured.
 */
export const fairness: Scenario = {
  summary: "nine tenants' latency at 10/s each while a tenth floods 100,000 deliveries, against without it",
  targets: {
    sqlite: [{ figure: 'p99Ratio', atMost: 1.5 }],
    postgres: [{ figure: 'p99Ratio', atMost: 1.5 }],
  },

  async run(bench): Promise<Figures> {
    const parts: Parts = {
      receiving: await startReceiving(bench, tenants),
      flooded: await startReceiving(bench, floodEndpoints),
      steady: startChild<LoadCommands>('load', bench.ends),
      flooding: startChild<LoadCommands>('load', bench.ends),
    }
    const floodPaths = parts.flooded.urls.map((url) => new URL(url).pathname)
    await parts.flooded.receiver.ask('behave', { paths: floodPaths, behaviour: { okAfterMs: floodAnswerMs } })
    const alone: Round[] = []
    const beside: Round[] = []
    for (let round = 1; round <= rounds; round++) {
      beside.push(await measure(bench, parts, `beside_${round}`, true))
      alone.push(await measure(bench, parts, `alone_${round}`, false))
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
  readonly flooded: Receiving
  readonly steady: Child<LoadCommands>
  readonly flooding: Child<LoadCommands>
}

interface Round {
  /** Milliseconds from accepted to arrived, by tenant. */
  readonly latencies: readonly (readonly number[])[]
  /** From the first publish of the flood to its last arrival. */
  readonly seconds: number
}

/** How long the nine send: as long as the flood takes on a machine that is not slow, and some. */
const seconds = 13

async function measure(bench: Bench, parts: Parts, name: string, floods: boolean): Promise<Round> {
  bench.note(name)
  const { receiver, urls } = parts.receiving
  const server = await startServer(bench, await emptyStore(bench, name))
  const targets: string[] = []
  for (const url of urls) {
    targets.push(await setUp(server.api, `tenant ${targets.length + 1}`, [{ url }]))
  }
  const floodTarget = await setUp(
    server.api,
    'flood',
    parts.flooded.urls.map((url) => ({ url })),
  )
  const send = (forSeconds: number): Promise<LoadReport[]> =>
    Promise.all(
      targets.map((url) =>
        parts.steady.ask('openLoop', { url, key: apiKey, connections: 2, rate, seconds: forSeconds }),
      ),
    )
  await send(warmUpSeconds)
  await receiver.ask('until', { count: tenants * rate * warmUpSeconds, quietMs: 3000 })
  await receiver.ask('reset', 'ids')
  await parts.flooded.receiver.ask('reset', 'counts')

  const flooding = floods
    ? parts.flooding.ask('closedLoop', {
        url: floodTarget,
        key: apiKey,
        connections: 32,
        seconds: 60,
        count: floodMessages,
      })
    : undefined
  const reports = await send(seconds)
  const flooded = await flooding
  for (const report of reports) assertAccepted(report)
  if (flooded) assertAccepted(flooded)
  const lastOfFlood = flooded === undefined ? Number.POSITIVE_INFINITY : await floodIsOver(parts, name)
  const expected = reports.reduce((sum, { accepted }) => sum + accepted, 0)
  const delivered = await receiver.ask('until', { count: expected, quietMs: 5000 })
  if (delivered < expected) throw new Error(`${name}: only ${delivered} of ${expected} deliveries came`)
  const records = await receiver.ask('records')
  await server.stop()

  const latencies = reports.map((report) => {
    const during = report.acceptedAt.findLastIndex((at) => at < lastOfFlood) + 1
    const ids = report.ids.slice(0, during)
    return journey({ ...report, ids }, records).sinceAccepted
  })
  return { latencies, seconds: flooded ? (lastOfFlood - flooded.startedAt) / 1000 : seconds }
}

/** Answers when the last of the flood came. */
async function floodIsOver({ flooded: { receiver } }: Parts, name: string): Promise<number> {
  const delivered = await receiver.ask('until', { count: flood, quietMs: 5000 })
  if (delivered < flood) throw new Error(`${name}: only ${delivered} of the flood's ${flood} deliveries came`)
  return (await receiver.ask('totals')).lastAt
}

function p99Of(values: readonly number[]): number {
  return percentile(Float64Array.from(values).sort(), 0.99)
}
