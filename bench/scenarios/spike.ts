import { setUp } from '../api.ts'
import type { Bench, Figures, Row, Scenario } from '../bench.ts'
import { type Child, startChild } from '../child.ts'
import type { LoadCommands, LoadReport } from '../load.ts'
import { assertAccepted, type Receiving, startReceiving } from '../receiving.ts'
import { apiKey, startServer } from '../server.ts'
import { emptyStore } from '../store-place.ts'

/** Three spikes that broke other systems. Each runs on a server and a store of its own, all through the API. */
export const spike: Scenario = {
  summary: 'three spikes as they happened: what was accepted, delivered, lost and delivered twice',
  targets: {
    sqlite: [
      { figure: 'lost', atMost: 0, promised: true },
      { figure: 'duplicates', atMost: 0, promised: true },
    ],
    postgres: [
      { figure: 'lost', atMost: 0, promised: true },
      { figure: 'duplicates', atMost: 0, promised: true },
    ],
  },

  async run(bench): Promise<Figures> {
    const receiving = await startReceiving(bench, 12)
    const load = startChild<LoadCommands>('load', bench.ends)
    const stories = [
      await trendingVideo(bench, receiving, load),
      await partnersDown(bench, receiving, load),
      await loadTest(bench, receiving, load),
    ]
    return {
      lost: stories.reduce((sum, { lost }) => sum + Number(lost), 0),
      duplicates: stories.reduce((sum, { duplicates }) => sum + Number(duplicates), 0),
      stories,
    }
  },
}

type Load = Child<LoadCommands>

/** One clip goes viral: 5,000 events at once for 12 subscribers, 60,000 deliveries. */
function trendingVideo(bench: Bench, receiving: Receiving, load: Load): Promise<Row> {
  return story(bench, receiving, '5,000 events × 12 subscribers', 12, {}, (url) =>
    load.ask('closedLoop', { url, key: apiKey, connections: 64, seconds: 40, count: 5000 }),
  )
}

/**
 * 14,000 deliveries to ten partners within 12 s, five times as fast as it happened. After 2 s three partners cut every
 * connection and a fourth answers 504, for 6 s. The deliveries that they missed must reach them afterwards.
 */
function partnersDown(bench: Bench, receiving: Receiving, load: Load): Promise<Row> {
  const partners = 10
  const retry = { waits: { kind: 'list', ms: Array(20).fill(1000) }, jitter: 'equal', maxAgeMs: 600_000 }
  const { receiver } = receiving
  const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
  const outage = async (): Promise<void> => {
    await after(2000)
    await receiver.ask('behave', { paths: ['/0', '/1', '/2'], behaviour: 'reset' })
    await receiver.ask('behave', { paths: ['/3'], behaviour: { status: 504 } })
    await after(6000)
    await receiver.ask('behave', { paths: ['/0', '/1', '/2', '/3'], behaviour: 'ok' })
  }
  return story(bench, receiving, '14,000 deliveries, 3 of 10 partners down', partners, { retry }, async (url) => {
    const target = { url, key: apiKey, connections: 16 }
    const [report] = await Promise.all([load.ask('openLoop', { ...target, seconds: 12, rate: 1400 / 12 }), outage()])
    return report
  })
}

/** A load test that once answered in exactly five seconds: 5,000 publishes on 100 connections, three destinations each. */
function loadTest(bench: Bench, receiving: Receiving, load: Load): Promise<Row> {
  return story(bench, receiving, '5,000 publishes at 100 connections × 3', 3, {}, (url) =>
    load.ask('closedLoop', { url, key: apiKey, connections: 100, seconds: 40, count: 5000 }),
  )
}

async function story(
  bench: Bench,
  { receiver, urls }: Receiving,
  title: string,
  fanOut: number,
  settings: object,
  publish: (url: string) => Promise<LoadReport>,
): Promise<Row> {
  bench.note(title)
  const server = await startServer(bench, await emptyStore(bench, `story_${fanOut}`))
  const url = await setUp(
    server.api,
    title,
    urls.slice(0, fanOut).map((target) => ({ url: target, ...settings })),
  )
  await receiver.ask('reset', 'ids')
  const report = await publish(url)
  assertAccepted(report)
  const expected = report.accepted * fanOut
  await receiver.ask('until', { count: expected, quietMs: 8000 })
  await server.stop()
  const { delivered, duplicates, lastAt } = await receiver.ask('totals')
  const requests = (await receiver.ask('records')).reduce((sum, record) => sum + record.requests, 0)
  return {
    story: title,
    accepted: report.accepted,
    delivered,
    lost: expected - delivered,
    duplicates,
    failedAttempts: requests - delivered - duplicates,
    seconds: (lastAt - report.startedAt) / 1000,
    publishP99Ms: report.latency.p99Ms,
  }
}
