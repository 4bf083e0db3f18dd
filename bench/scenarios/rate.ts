import { callApi } from '../api.ts'
import type { Figures, Row, Scenario } from '../bench.ts'
import { machineNow } from '../machine-clock.ts'
import { query } from '../postgres.ts'
import { type Allowance, achievedShare, worstExcess } from '../rate-oracle.ts'
import { startReceiving } from '../receiving.ts'
import { startServer, startWorker } from '../server.ts'
import { addEndpoints, addMessages, emptyStore, withStore } from '../store-place.ts'

const allowances: readonly Allowance[] = [
  { rate: 1, burst: 5 },
  { rate: 10, burst: 10 },
  { rate: 100, burst: 20 },
  { rate: 1000, burst: 200 },
]
const endpointsEach = 2
const seconds = 25

/** Deep backlogs on rate-limited endpoints; on Postgres a server and a worker share them, SQLite has one owner. */
export const rate: Scenario = {
  summary: 'every window of every endpoint at the receiver against burst + rate × w, and how much of the rate is used',
  targets: {
    sqlite: [
      { figure: 'worstExcess', atMost: 0, promised: true },
      { figure: 'worstAchieved', atLeast: 0.97 },
    ],
    postgres: [
      { figure: 'worstExcess', atMost: 0, promised: true },
      { figure: 'worstAchieved', atLeast: 0.97 },
    ],
  },

  async run(bench): Promise<Figures> {
    const limits = allowances.flatMap((allowance) => Array<Allowance>(endpointsEach).fill(allowance))
    const { receiver, urls } = await startReceiving(bench, limits.length)
    const place = await emptyStore(bench, 'rate')
    bench.note('storing the backlog')
    const { app, endpoints } = await seed(place, urls, limits)

    // The endpoints are disabled until all workers run, so that each of them gets its share of the lanes.
    const server = await startServer(bench, place)
    const worker = bench.store === 'postgres' ? await startWorker(bench, place) : undefined
    await receiver.ask('reset', 'stamps')
    for (const id of endpoints) await callApi('PATCH', `${server.api}/app/${app}/endpoint/${id}`, { disabled: false })
    bench.note(`delivering for ${seconds} s`)
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    const endMs = machineNow()
    const records = await receiver.ask('records')
    const workers = worker ? await owners(place) : 1
    await server.stop()
    await worker?.stop()

    const rows = limits.map((allowance, i): Row => {
      const { stamps, notBefore } = records.find(({ path }) => path === `/${i}`) ?? { stamps: [], notBefore: [] }
      return {
        ...allowance,
        arrivals: stamps.length,
        excess: worstExcess({ readMs: stamps, notBeforeMs: notBefore }, allowance),
        excessAsRead: worstExcess({ readMs: stamps, notBeforeMs: stamps }, allowance),
        achieved: achievedShare(stamps, allowance, endMs),
      }
    })
    return {
      worstExcess: Math.max(...rows.map(({ excess }) => Number(excess))),
      worstAchieved: Math.min(...rows.map(({ achieved }) => Number(achieved))),
      workers,
      excessAsRead: Math.max(...rows.map(({ excessAsRead }) => Number(excessAsRead))),
      endpoints: rows,
    }
  },
}

async function seed(place: string, urls: readonly string[], limits: readonly Allowance[]) {
  return withStore(place, async (store) => {
    const app = await store.createApplication({ name: 'bench', uid: null, throttleRate: null, metadata: {} })
    const endpoints = await addEndpoints(
      store,
      app.key,
      limits.map(({ rate, burst }, i) => ({ url: urls[i] ?? '', throttleRate: rate, burst, disabled: true })),
    )
    // Half as much again as can be sent: no lane runs dry.
    const needs = limits.map(({ rate, burst }) => burst + rate * seconds * 1.5)
    const keysFor = (n: number): number[] => endpoints.filter((_, i) => (needs[i] ?? 0) > n).map(({ key }) => key)
    await addMessages(store, app.key, Math.max(...needs), keysFor)
    return { app: app.id, endpoints: endpoints.map(({ id }) => id) }
  })
}

/** How many workers own lanes. */
async function owners(place: string): Promise<number> {
  const rows = await query(place, 'select count(distinct owner)::int as workers from lane where owner is not null')
  return Number(rows[0]?.workers)
}
