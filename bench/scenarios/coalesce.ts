import { decodeKey } from '../../src/domain/ids.ts'
import { setUp } from '../api.ts'
import type { Bench, Figures, Scenario } from '../bench.ts'
import { type Child, startChild } from '../child.ts'
import type { LoadCommands, LoadReport } from '../load.ts'
import { assertAccepted, type Receiving, startReceiving } from '../receiving.ts'
import { apiKey, startServer } from '../server.ts'
import { emptyStore, withStore } from '../store-place.ts'

const subscribers = 12
const videos = 20
const rate = 400
const seconds = 10
const windowMs = 2000

/**
 * The afternoon a clip goes viral: 4,000 events within ten seconds, all about the same 20 videos, for 12 subscribers. Once
 * as it was, and once with subscribers that want to hear of a video every two seconds at most.
 */
export const coalesce: Scenario = {
  summary: 'requests at the receivers when a clip goes viral, with coalescing and without',
  targets: {
    sqlite: [
      { figure: 'savedShare', atLeast: 0.5 },
      { figure: 'lost', atMost: 0, promised: true },
    ],
    postgres: [
      { figure: 'savedShare', atLeast: 0.5 },
      { figure: 'lost', atMost: 0, promised: true },
    ],
  },

  async run(bench): Promise<Figures> {
    const parts: Parts = {
      receiving: await startReceiving(bench, subscribers),
      load: startChild<LoadCommands>('load', bench.ends),
    }
    const plain = await goViral(bench, parts, 'as it was', {})
    const coalesced = await goViral(bench, parts, 'coalesced', { coalesce: { windowMs, key: '/video/id' } })
    return {
      savedShare: 1 - coalesced.requests / plain.requests,
      requests: plain.requests,
      coalescedRequests: coalesced.requests,
      gaveWay: coalesced.gaveWay,
      lost: plain.lost + coalesced.lost,
      publishP99Ms: plain.publishP99Ms,
      coalescedPublishP99Ms: coalesced.publishP99Ms,
    }
  },
}

interface Parts {
  readonly receiving: Receiving
  readonly load: Child<LoadCommands>
}

interface Story {
  readonly requests: number
  readonly gaveWay: number
  /** Deliveries that neither arrived nor gave way to one that did. */
  readonly lost: number
  readonly publishP99Ms: number
}

async function goViral(bench: Bench, { receiving, load }: Parts, name: string, settings: object): Promise<Story> {
  bench.note(name)
  const { receiver, urls } = receiving
  const place = await emptyStore(bench, name.replaceAll(' ', '_'))
  const server = await startServer(bench, place)
  const url = await setUp(
    server.api,
    name,
    urls.map((target) => ({ url: target, ...settings })),
  )
  await receiver.ask('reset', 'ids')
  const report = await load.ask('openLoop', { url, key: apiKey, connections: 32, rate, seconds, subjects: videos })
  assertAccepted(report)
  await receiver.ask('until', { count: report.accepted * subscribers, quietMs: windowMs + 3000 })
  const records = await receiver.ask('records')
  await server.stop()
  const arrived = records.map(({ ids }) => new Set(ids))
  const requests = records.reduce((sum, record) => sum + record.requests, 0)
  return { requests, ...(await endsOf(place, report, arrived)), publishP99Ms: report.latency.p99Ms }
}

/** Follows each delivery that did not arrive to the one it gave way to, until one that did. */
async function endsOf(
  place: string,
  { ids }: LoadReport,
  arrived: readonly ReadonlySet<string>[],
): Promise<{ gaveWay: number; lost: number }> {
  return withStore(place, async (store) => {
    const [app] = (await store.listApplications({ after: null, order: 'ascending', limit: 1 })).items
    const endpoints = (await store.listEndpoints(app?.key ?? 0, { after: null, order: 'ascending', limit: 100 })).items
    let gaveWay = 0
    let lost = 0
    for (const { key: endpoint, url } of endpoints) {
      const here = arrived[Number(new URL(url).pathname.slice(1))] ?? new Set()
      const missing = ids.filter((id) => !here.has(id))
      const found = await store.findCoalesced(missing.map((id) => ({ endpoint, message: decodeKey('msg', id) ?? 0 })))
      const successors = new Map(missing.map((id, i) => [id, found[i]?.into ?? undefined]))
      for (const id of missing) {
        let last: string | undefined = id
        while (last !== undefined && !here.has(last)) last = successors.get(last)
        if (last === undefined) lost++
        else gaveWay++
      }
    }
    return { gaveWay, lost }
  })
}
