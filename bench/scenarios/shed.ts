import { setUp } from '../api.ts'
import type { Figures, Scenario } from '../bench.ts'
import { startChild } from '../child.ts'
import type { LoadCommands, LoadReport } from '../load.ts'
import { median } from '../percentile.ts'
import { assertAccepted, startReceiving } from '../receiving.ts'
import { apiKey, startServer } from '../server.ts'
import { emptyStore } from '../store-place.ts'

/** The endpoint's rate per second, and the number of deliveries that may wait for it. */
const pace = 200
const waitingLimit = 400
const offered = 2500
const seconds = 5
const rounds = 3
const connections = 64

/**
 * An endpoint takes 200 a second and at most 400 may wait for it. Calm is what it can take; in the storm twelve times as
 * much is offered and nearly all of it refused. Publishes that are accepted meanwhile must be answered as fast as in the calm, and
 * arrive.
 */
export const shed: Scenario = {
  summary:
    'answering time of what is accepted while twelve times as much is offered as an endpoint takes, against calm',
  targets: {
    sqlite: [
      { figure: 'p99Ratio', atMost: 2 },
      { figure: 'lost', atMost: 0, promised: true },
      { figure: 'otherAnswers', atMost: 0, promised: true },
    ],
    postgres: [
      { figure: 'p99Ratio', atMost: 2 },
      { figure: 'lost', atMost: 0, promised: true },
      { figure: 'otherAnswers', atMost: 0, promised: true },
    ],
  },

  async run(bench): Promise<Figures> {
    const { receiver, urls } = await startReceiving(bench, 1)
    const load = startChild<LoadCommands>('load', bench.ends)
    const place = await emptyStore(bench, 'shed')
    const server = await startServer(bench, place, { SLUICE_MAX_WAITING_PER_ENDPOINT: String(waitingLimit) })
    const limited = { url: urls[0] as string, throttleRate: pace, burst: pace / 10 }
    const url = await setUp(server.api, 'shed', [limited])
    const offer = (rate: number, forSeconds: number): Promise<LoadReport> =>
      load.ask('openLoop', { url, key: apiKey, connections, rate, seconds: forSeconds })
    await receiver.ask('reset', 'ids')

    const calm: LoadReport[] = []
    const storm: LoadReport[] = []
    // Half of what the endpoint takes, so that what waits has drained before it is calm again.
    const warm = await offer(pace / 2, 2)
    for (let round = 1; round <= rounds; round++) {
      bench.note(`round ${round}`)
      calm.push(await offer(pace / 2, seconds))
      storm.push(await offer(offered, seconds))
      await receiver.ask('until', { count: accepted([warm, ...calm, ...storm]), quietMs: 5000 })
    }
    for (const report of [warm, ...calm]) assertAccepted(report)
    const expected = accepted([warm, ...calm, ...storm])
    const { delivered, duplicates } = await receiver.ask('totals')
    await server.stop()

    const refused = storm.reduce((sum, report) => sum + (report.refused[429] ?? 0), 0)
    const others = storm.flatMap(({ refused: answers }) =>
      Object.entries(answers).filter(([status]) => status !== '429'),
    )
    const calmP99Ms = median(calm.map(({ latency }) => latency.p99Ms))
    const stormP99Ms = median(storm.map(({ latency }) => latency.p99Ms))
    return {
      p99Ratio: stormP99Ms / calmP99Ms,
      calmP99Ms,
      stormP99Ms,
      calmP50Ms: median(calm.map(({ latency }) => latency.p50Ms)),
      stormP50Ms: median(storm.map(({ latency }) => latency.p50Ms)),
      offered: offered * seconds * rounds,
      accepted: accepted(storm),
      refused,
      otherAnswers: others.reduce((sum, [, count]) => sum + count, 0),
      lost: expected - delivered,
      duplicates,
    }
  },
}

function accepted(reports: readonly LoadReport[]): number {
  return reports.reduce((sum, report) => sum + report.accepted, 0)
}
