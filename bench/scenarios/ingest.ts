import { setUp } from '../api.ts'
import type { Bench, Figures, Scenario } from '../bench.ts'
import { startChild } from '../child.ts'
import type { LoadCommands, LoadReport } from '../load.ts'
import { median } from '../percentile.ts'
import { postgresUs } from '../postgres.ts'
import { assertAccepted } from '../receiving.ts'
import type { AcceptCommands } from '../reference-accept.ts'
import { apiKey, startServer } from '../server.ts'
import { emptyStore } from '../store-place.ts'
import { type ThreadTime, threadTime } from '../thread-time.ts'

const connections = 64
const slices = 3
const seconds = 4
const warmUpSeconds = 2

/** Publishes, and the processor time that each of them took. */
interface Slice {
  readonly report: LoadReport
  readonly time: Times
}

/** Processor time in microseconds; that of Postgres is not a number on SQLite. */
interface Times extends ThreadTime {
  readonly postgresUs: number
}

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
      { figure: 'keyedCost', atMost: 1.2 },
    ],
    postgres: [
      { figure: 'ratio', atLeast: 0.2 },
      { figure: 'keyedRatio', atLeast: 0.2 },
      { figure: 'keyedCost', atMost: 1.2 },
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
    const timed = async (isKeyed: boolean): Promise<Slice> => {
      const before = timesOf(bench, server.pid)
      const report = await publish(url, seconds, isKeyed)
      return { report, time: perPublish(before, timesOf(bench, server.pid), report.accepted) }
    }
    const raw: LoadReport[] = []
    const plain: Slice[] = []
    const rawKeyed: LoadReport[] = []
    const keyed: Slice[] = []
    for (let slice = 1; slice <= slices; slice++) {
      bench.note(`slice ${slice} of ${slices}`)
      raw.push(await publish(rawUrl, seconds))
      plain.push(await timed(false))
      rawKeyed.push(await publish(rawUrl, seconds, true))
      keyed.push(await timed(true))
    }
    await server.stop()

    const rate = { plain: rateOf(plain), keyed: rateOf(keyed), raw: median(raw.map(perSec)) }
    const rawKeyedPerSec = median(rawKeyed.map(perSec))
    const [time, keyedTime] = [timesOfAll(plain), timesOfAll(keyed)]
    const latency = (figure: 'p50Ms' | 'p99Ms') => median(plain.map(({ report }) => report.latency[figure]))
    const onPostgres = bench.store === 'postgres'
    return {
      publishesPerSec: rate.plain,
      rawPerSec: rate.raw,
      ratio: rate.plain / rate.raw,
      keyedPerSec: rate.keyed,
      rawKeyedPerSec,
      keyedRatio: rate.keyed / rawKeyedPerSec,
      mainUs: time.mainUs,
      keyedMainUs: keyedTime.mainUs,
      allUs: time.allUs,
      keyedAllUs: keyedTime.allUs,
      ...(onPostgres && { postgresUs: time.postgresUs, keyedPostgresUs: keyedTime.postgresUs }),
      keyedCost: (keyedTime.allUs + (keyedTime.postgresUs || 0)) / (time.allUs + (time.postgresUs || 0)),
      p50Ms: latency('p50Ms'),
      p99Ms: latency('p99Ms'),
      rawP99Ms: median(raw.map(({ latency }) => latency.p99Ms)),
      connections,
      rssMb: server.peakRssMb(),
    }
  },
}

function perSec({ accepted, startedAt, endedAt }: LoadReport): number {
  return (accepted * 1000) / (endedAt - startedAt)
}

function rateOf(slices: readonly Slice[]): number {
  return median(slices.map(({ report }) => perSec(report)))
}

function timesOf(bench: Bench, pid: number): Times {
  return { ...threadTime(pid), postgresUs: bench.store === 'postgres' ? postgresUs(bench) : Number.NaN }
}

function perPublish(before: Times, after: Times, count: number): Times {
  return timesFrom((name) => (after[name] - before[name]) / count)
}

function timesOfAll(slices: readonly Slice[]): Times {
  return timesFrom((name) => median(slices.map(({ time }) => time[name])))
}

function timesFrom(value: (name: keyof Times) => number): Times {
  return {
    mainUs: value('mainUs'),
    allUs: value('allUs'),
    mainWaitUs: value('mainWaitUs'),
    postgresUs: value('postgresUs'),
  }
}
