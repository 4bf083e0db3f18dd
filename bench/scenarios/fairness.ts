import { setTimeout } from 'node:timers/promises'
import { setUp } from '../api.ts'
import type { Bench, Figures, Scenario } from '../bench.ts'
import { type Child, startChild } from '../child.ts'
import type { LoadCommands, LoadReport } from '../load.ts'
import { latencyFigures, median, percentile } from '../percentile.ts'
import { assertAccepted, type Journey, journey, type Receiving, startReceiving } from '../receiving.ts'
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
const answerMs = 40

/**
 * One tenant publishes 100,000 deliveries as fast as it is answered; nine others send ten messages a second each, as they do
 * without it. All receivers take 40 ms. Only what the nine published before the last of the flood had arrived counts. The
 * flood has a receiver and a publisher of its own, whose costs are not measured.
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
    for (const { receiver, urls } of [parts.receiving, parts.flooded]) {
      const paths = urls.map((url) => new URL(url).pathname)
      await receiver.ask('behave', { paths, behaviour: { okAfterMs: answerMs } })
    }
    const alone: Round[] = []
    const beside: Round[] = []
    for (let round = 1; round <= rounds; round++) {
      beside.push(await measure(bench, parts, `beside_${round}`, true))
      alone.push(await measure(bench, parts, `alone_${round}`, false))
    }
    const byTenant = Array.from({ length: tenants }, (_, tenant) => {
      const ofTenant = (rounds: Round[]) =>
        p99Of(rounds.flatMap(({ journeys }) => journeys[tenant]?.untilAnswered ?? []))
      const [aloneP99Ms, besideP99Ms] = [ofTenant(alone), ofTenant(beside)]
      return { tenant: tenant + 1, aloneP99Ms, besideP99Ms, ratio: besideP99Ms / aloneP99Ms }
    })
    const over = (rounds: Round[], part: keyof Journey) =>
      rounds.map(({ journeys }) => latencyFigures(journeys.flatMap((journey) => journey[part])))
    const p99 = (rounds: Round[], part: keyof Journey) => median(over(rounds, part).map(({ p99Ms }) => p99Ms))
    const p50 = (rounds: Round[], part: keyof Journey) => median(over(rounds, part).map(({ p50Ms }) => p50Ms))
    return {
      p99Ratio: p99(beside, 'untilAnswered') / p99(alone, 'untilAnswered'),
      aloneP99Ms: p99(alone, 'untilAnswered'),
      besideP99Ms: p99(beside, 'untilAnswered'),
      worstTenantRatio: Math.max(...byTenant.map(({ ratio }) => ratio)),
      aloneArrivedP50Ms: p50(alone, 'sinceAccepted'),
      besideArrivedP50Ms: p50(beside, 'sinceAccepted'),
      aloneArrivedP99Ms: p99(alone, 'sinceAccepted'),
      besideArrivedP99Ms: p99(beside, 'sinceAccepted'),
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
  /** By tenant. */
  readonly journeys: readonly Journey[]
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
      targets.map(async (url, i) => {
        // Not all at the same instants.
        await setTimeout((i * 1000) / rate / tenants)
        return parts.steady.ask('openLoop', { url, key: apiKey, connections: 2, rate, seconds: forSeconds })
      }),
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

  const journeys = reports.map((report) => {
    const during = report.acceptedAt.findLastIndex((at) => at < lastOfFlood) + 1
    const ids = report.ids.slice(0, during)
    return journey({ ...report, ids }, records)
  })
  return { journeys, seconds: flooded ? (lastOfFlood - flooded.startedAt) / 1000 : seconds }
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
