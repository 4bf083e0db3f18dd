import type { Bench, Figures, Scenario } from '../bench.ts'
import { type Drained, drain } from '../drain.ts'
import { median } from '../percentile.ts'
import { startReceivers } from '../receivers.ts'
import { addEndpoints, addMessages, emptyStore, withStore } from '../store-place.ts'

const healthy = 12
const concurrency = 8
const rounds = 3
const messagesPerRound = { sqlite: 8000, postgres: 6000 }
const dead = 50
const deadRows = 1_000_000
const hour = 3_600_000

interface Place {
  readonly setting: string
  readonly app: number
  readonly healthyKeys: readonly number[]
}

/**
 * Half of the million waits for a retry that is due in an hour, on 25 endpoints; the other half is due now, on 25
 * endpoints that accept a request and never answer. Both sorts belong to an application of their own.
 */
export const backlog: Scenario = {
  summary: 'throughput to healthy endpoints while 1,000,000 deliveries wait on dead ones, against none waiting',
  targets: {
    sqlite: [
      { figure: 'ratio', atLeast: 0.9 },
      { figure: 'rssMb', atMost: 300 },
    ],
    postgres: [
      { figure: 'ratio', atLeast: 0.9 },
      { figure: 'rssMb', atMost: 300 },
    ],
  },

  async run(bench): Promise<Figures> {
    const receivers = await startReceivers(bench, healthy + 1)
    const [hangingUrl = '', ...healthyUrls] = receivers.urls
    await receivers.behave([new URL(hangingUrl).pathname], 'hang')
    const alone = await prepare(bench, 'alone', healthyUrls)
    const beside = await prepare(bench, 'beside', healthyUrls)
    bench.note(`storing ${deadRows} deliveries for dead endpoints`)
    await seedDead(beside, hangingUrl)

    const runs: { alone: Drained[]; beside: Drained[] } = { alone: [], beside: [] }
    for (let round = 1; round <= rounds; round++) {
      for (const [name, place] of [
        ['alone', alone],
        ['beside', beside],
      ] as const) {
        bench.note(`round ${round} of ${rounds}: ${name}`)
        const messages = messagesPerRound[bench.store]
        await withStore(place.setting, (store) => addMessages(store, place.app, messages, () => place.healthyKeys))
        runs[name].push(await drain(bench, receivers, place.setting, messages * healthy))
      }
    }

    const besidePerSec = median(runs.beside.map(({ perSec }) => perSec))
    const alonePerSec = median(runs.alone.map(({ perSec }) => perSec))
    return {
      ratio: besidePerSec / alonePerSec,
      rssMb: Math.max(...runs.beside.map(({ rssMb }) => rssMb)),
      besidePerSec,
      alonePerSec,
      besideAllUs: median(runs.beside.map(({ allUs }) => allUs)),
      aloneAllUs: median(runs.alone.map(({ allUs }) => allUs)),
      aloneRssMb: Math.max(...runs.alone.map(({ rssMb }) => rssMb)),
      waiting: (await withStore(beside.setting, (store) => store.counts())).pending,
    }
  },
}

async function prepare(bench: Bench, name: string, urls: readonly string[]): Promise<Place> {
  const setting = await emptyStore(bench, name)
  return withStore(setting, async (store) => {
    const app = await store.createApplication({ name, uid: null, throttleRate: null, metadata: {} })
    const endpoints = await addEndpoints(
      store,
      app.key,
      urls.map((url) => ({ url, concurrency })),
    )
    return { setting, app: app.key, healthyKeys: endpoints.map(({ key }) => key) }
  })
}

async function seedDead({ setting }: Place, url: string): Promise<void> {
  await withStore(setting, async (store) => {
    const app = await store.createApplication({ name: 'dead', uid: null, throttleRate: null, metadata: {} })
    const endpoints = await addEndpoints(store, app.key, Array(dead).fill({ url }))
    const keys = endpoints.map(({ key }) => key)
    const half = dead / 2
    await addMessages(store, app.key, deadRows / dead, () => keys.slice(0, half), hour)
    await addMessages(store, app.key, deadRows / dead, () => keys.slice(half))
  })
}
