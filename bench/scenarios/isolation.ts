import { setUp } from '../api.ts'
import type { Figures, Scenario } from '../bench.ts'
import { startChild } from '../child.ts'
import type { LoadCommands } from '../load.ts'
import { latencyFigures, median } from '../percentile.ts'
import { assertAccepted, journey, startReceiving } from '../receiving.ts'
import { apiKey, startServer } from '../server.ts'
import { emptyStore } from '../store-place.ts'

const healthy = 10
const hanging = 50
const rate = 100
const seconds = 4
const warmUpSeconds = 2
const rounds = 3
const connections = 16

/**
 * Healthy and hanging endpoints belong to one application and get the same messages: nothing is set apart for the healthy
 * ones. Each server is new, so that the warm-up already fills everything the hanging ones can fill.
 */
export const isolation: Scenario = {
  summary: 'latency to 10 healthy endpoints beside 50 that accept and never answer, against alone',
  targets: {
    sqlite: [{ figure: 'p99Ratio', atMost: 2 }],
    postgres: [{ figure: 'p99Ratio', atMost: 2 }],
  },

  async run(bench): Promise<Figures> {
    const { receiver, urls } = await startReceiving(bench, healthy + hanging)
    const hangingPaths = urls.slice(healthy).map((url) => new URL(url).pathname)
    await receiver.ask('behave', { paths: hangingPaths, behaviour: 'hang' })
    const load = startChild<LoadCommands>('load', bench.ends)

    const measure = async (name: string, targets: readonly string[]): Promise<ReturnType<typeof latencyFigures>> => {
      bench.note(name)
      const server = await startServer(bench, await emptyStore(bench, name))
      const url = await setUp(
        server.api,
        name,
        targets.map((target) => ({ url: target })),
      )
      await load.ask('openLoop', { url, key: apiKey, connections, rate, seconds: warmUpSeconds })
      await receiver.ask('until', { count: rate * warmUpSeconds * healthy, quietMs: 2000 })
      await receiver.ask('reset', 'ids')
      const sent = await load.ask('openLoop', { url, key: apiKey, connections, rate, seconds })
      assertAccepted(sent)
      const expected = sent.accepted * healthy
      const delivered = await receiver.ask('until', { count: expected, quietMs: 5000 })
      if (delivered < expected) throw new Error(`${name}: only ${delivered} of ${expected} deliveries came`)
      const { sinceAccepted } = journey(sent, await receiver.ask('records'))
      await server.stop()
      return latencyFigures(sinceAccepted)
    }

    const alone: { p50Ms: number; p99Ms: number }[] = []
    const beside: { p50Ms: number; p99Ms: number }[] = []
    for (let round = 1; round <= rounds; round++) {
      alone.push(await measure(`alone_${round}`, urls.slice(0, healthy)))
      beside.push(await measure(`beside_${round}`, urls))
    }
    const aloneP99Ms = median(alone.map(({ p99Ms }) => p99Ms))
    const besideP99Ms = median(beside.map(({ p99Ms }) => p99Ms))
    return {
      p99Ratio: besideP99Ms / aloneP99Ms,
      aloneP99Ms,
      besideP99Ms,
      aloneP50Ms: median(alone.map(({ p50Ms }) => p50Ms)),
      besideP50Ms: median(beside.map(({ p50Ms }) => p50Ms)),
    }
  },
}
