import { setUp } from '../api.ts'
import type { Bench, Figures, Scenario } from '../bench.ts'
import { type Child, startChild } from '../child.ts'
import type { LoadCommands } from '../load.ts'
import { Meter, perEvent } from '../meter.ts'
import { postgresUs, query } from '../postgres.ts'
import { assertAccepted, type Receiving, startReceiving } from '../receiving.ts'
import { apiKey, type Server, startServer, startWorker } from '../server.ts'
import { steadyRate } from '../steady-rate.ts'
import { emptyStore } from '../store-place.ts'
import { type ThreadTime, threadTime } from '../thread-time.ts'

const endpoints = 64
const answerMs = 50
/**
 * So few that a worker waits for receivers and not for a core, on a machine with few cores, too: with receivers of 50 ms it
 * delivers at most 320/s.
 */
const inFlight = 16
const perWorkerPerSec = (inFlight * 1000) / answerMs
const seconds = 8
const warmUpSeconds = 7
/** Of the rate that is possible. */
const warmUpShare = 0.3
/** SQLite has one owner. */
const sizes = { sqlite: [1], postgres: [1, 2, 4, 8] }
const connections = 8

/** Fleets of several sizes, one after the other, each on a database of its own. */
export const fleet: Scenario = {
  summary: 'deliveries per second of 1, 2, 4 and 8 workers whose receivers take 50 ms, against the one worker',
  targets: {
    sqlite: [],
    postgres: [
      { figure: 'linear', atLeast: 0.9 },
      { figure: 'cpuRatio', atMost: 1.5 },
    ],
  },

  async run(bench): Promise<Figures> {
    const receiving = await startReceiving(bench, endpoints)
    const paths = receiving.urls.map((url) => new URL(url).pathname)
    await receiving.receiver.ask('behave', { paths, behaviour: { okAfterMs: answerMs } })
    const load = startChild<LoadCommands>('load', bench.ends)
    const fleets: Measured[] = []
    for (const workers of sizes[bench.store]) {
      bench.note(`${workers} ${workers === 1 ? 'worker' : 'workers'}`)
      fleets.push(await measure(bench, receiving, load, workers))
    }
    const [one, most] = [fleets[0] as Measured, fleets.at(-1) as Measured]
    return {
      workers: most.workers,
      perSec: most.perSec,
      onePerSec: one.perSec,
      linear: most.perSec / (most.workers * one.perSec),
      cpuUsPerDelivery: most.cpuUs,
      cpuRatio: most.cpuUs / one.cpuUs,
      ...(bench.store === 'postgres' && { postgresUsPerDelivery: most.postgresUs }),
      duplicates: fleets.reduce((sum, { duplicates }) => sum + duplicates, 0),
      fleets: fleets.map((each) => ({ ...each, linear: each.perSec / (each.workers * one.perSec) })),
    }
  },
}

/** The work of one fleet; processor times are for each delivery. */
interface Measured {
  readonly workers: number
  readonly perSec: number
  /** Of the share that the limit of attempts and the receivers leave. */
  readonly ofPossible: number
  readonly cpuUs: number
  readonly postgresUs: number
  /** Lanes of the workers with the fewest and the most, while all had work. */
  readonly fewestLanes: number
  readonly mostLanes: number
  readonly duplicates: number
}

async function measure(
  bench: Bench,
  { receiver, urls }: Receiving,
  load: Child<LoadCommands>,
  workers: number,
): Promise<Measured> {
  const place = await emptyStore(bench, `fleet_${workers}`)
  const settings = { SLUICE_IN_FLIGHT: String(inFlight), SLUICE_SHUTDOWN_LIMIT: '5s' }
  const server = await startServer(bench, place, settings)
  const all: Server[] = [server]
  while (all.length < workers) all.push(await startWorker(bench, place, settings))
  const url = await setUp(
    server.api,
    'fleet',
    urls.map((to) => ({ url: to })),
  )
  const target = { url, key: apiKey, connections }
  // Workers count their lanes every third of a lease: until then, the one that stored the first messages has most of them.
  const some = { ...target, rate: (perWorkerPerSec * workers * warmUpShare) / endpoints, seconds: warmUpSeconds }
  await receiver.ask('reset', 'counts')
  const warming = await load.ask('openLoop', some)
  assertAccepted(warming)
  await receiver.ask('until', { count: warming.accepted * endpoints, quietMs: 10_000 })
  const messages = Math.ceil((perWorkerPerSec * workers * seconds) / endpoints)
  await receiver.ask('reset', 'ids')
  const meter = new Meter(() => ({
    cpuUs: sumOf(all.map(({ pid }) => threadTime(pid))),
    postgresUs: postgresUs(bench),
  }))
  const sent = await load.ask('closedLoop', { ...target, seconds: 60, count: messages })
  assertAccepted(sent)
  const deliveries = sent.accepted * endpoints
  await receiver.ask('until', { count: deliveries / 2, quietMs: 10_000 })
  const lanes = await lanesOf(bench, place)
  const delivered = await receiver.ask('until', { count: deliveries, quietMs: 10_000 })
  meter[Symbol.dispose]()
  if (delivered < deliveries) throw new Error(`only ${delivered} of ${deliveries} deliveries came, then none for 10 s`)
  const { timeline, startedAt, duplicates } = await receiver.ask('totals')
  for (const each of all) await each.stop()
  const perSec = steadyRate(timeline)
  return {
    ...{ workers, perSec, ofPossible: perSec / (workers * perWorkerPerSec), duplicates },
    ...perEvent(meter, timeline, startedAt),
    ...{ fewestLanes: lanes.length < workers ? 0 : Math.min(...lanes), mostLanes: Math.max(...lanes) },
  }
}

const sumOf = (times: readonly ThreadTime[]) => times.reduce((sum, { allUs }) => sum + allUs, 0)

/** How many lanes each worker owns that has any. */
async function lanesOf({ store }: Bench, place: string): Promise<number[]> {
  if (store === 'sqlite') return [endpoints]
  const rows = await query(place, 'select count(*)::int as lanes from lane where owner is not null group by owner')
  return rows.map(({ lanes }) => lanes)
}
