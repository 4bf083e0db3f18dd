import { setUp } from '../api.ts'
import type { Figures, Scenario } from '../bench.ts'
import { startChild } from '../child.ts'
import type { LoadCommands, LoadReport } from '../load.ts'
import { median } from '../percentile.ts'
import { assertAccepted } from '../receiving.ts'
import type { AcceptCommands } from '../reference-accept.ts'
import { apiKey, startServer } from '../server.ts'
import { emptyStore } from '../store-place.ts'

const connections = 64
const slices = 3
const seconds = 4
const warmUpSeconds = 2

/**
 * Publishes to one application with one endpoint that is disabled: each publish stores a message and a delivery. Keyed
 * ones have an Idempotency-Key each and store that, too.
 */
export const ingest: Scenario = {
  summary: 'durable publishes per second over 64 connections, against a Fastify route that stores nothing',
  targets: {
    sqlite: [
      { figure: 'ratio', atLeast: 0.4 },
      { figure: 'keyedRatio', atLeast: 0.4 },
    ],
    postgres: [
      { figure: 'ratio', atLeast: 0.2 },
      { figure: 'keyedRatio', atLeast: 0.2 },
    ],
  },

  async run(bench): Promise<Figures> {
    const load = startChild<LoadCommands>('load', bench.ends)
    const reference = startChild<AcceptCommands>('reference-accept', bench.ends)
    const server = await startServer(bench, await emptyStore(bench, 'ingest'))
    const rawUrl = await reference.ask('listen', { connections })
    const url = await setUp(server.api, 'bench', [{ url: 'http://127.0.0.1:9/held', disabled: true }])
    const publish = async (to: string, forSeconds: number, keyed = false): Promise<LoadReport> => {
      const report = await load.ask('closedLoop', { url: to, key: apiKey, connections, seconds: forSeconds, keyed })
      assertAccepted(report)
      return report
    }

    bench.note('warming up both')
    await publish(rawUrl, warmUpSeconds)
    await publish(url, warmUpSeconds)
    const raw: LoadReport[] = []
    const durable: LoadReport[] = []
    const rawKeyed: LoadReport[] = []
    const keyed: LoadReport[] = []
    for (let slice = 1; slice <= slices; slice++) {
      bench.note(`slice ${slice} of ${slices}`)
      raw.push(await publish(rawUrl, seconds))
      durable.push(await publish(url, seconds))
      rawKeyed.push(await publish(rawUrl, seconds, true))
      keyed.push(await publish(url, seconds, true))
    }
    await server.stop()

    const publishesPerSec = median(durable.map(perSec))
    const rawPerSec = median(raw.map(perSec))
    return {
      publishesPerSec,
      rawPerSec,
      ratio: publishesPerSec / rawPerSec,
      keyedPerSec: median(keyed.map(perSec)),
      rawKeyedPerSec: median(rawKeyed.map(perSec)),
      keyedRatio: median(keyed.map(perSec)) / median(rawKeyed.map(perSec)),
      p50Ms: median(durable.map(({ latency }) => latency.p50Ms)),
      p99Ms: median(durable.map(({ latency }) => latency.p99Ms)),
      rawP99Ms: median(raw.map(({ latency }) => latency.p99Ms)),
      connections,
      rssMb: server.peakRssMb(),
    }
  },
}

function perSec({ accepted, startedAt, endedAt }: LoadReport): number {
  return (accepted * 1000) / (endedAt - startedAt)
}
