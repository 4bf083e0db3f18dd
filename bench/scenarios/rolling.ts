import type { Figures, Scenario } from '../bench.ts'
import { openFleet } from '../fleet-stalls.ts'
import { median } from '../percentile.ts'

const rolls = 5
const slowMs = 15_000
const secondsPerRoll = 22

/** In each roll a new worker starts and an old one stops, while one receiver takes 15 s for each request. */
export const rolling: Scenario = {
  summary: 'the longest wait of a delivery while workers are replaced beside a receiver that takes 15 s',
  targets: {
    sqlite: [],
    postgres: [
      { figure: 'worstMs', atMost: 250 },
      { figure: 'repeated', atMost: 0 },
    ],
  },

  async run(bench): Promise<Figures> {
    const fleet = await openFleet(bench, { SLUICE_SHUTDOWN_LIMIT: '30s' }, 1)
    const { receiver, urls } = fleet.receiving
    const slow = new URL(urls.at(-1) ?? '').pathname
    await receiver.ask('behave', { paths: [slow], behaviour: { okAfterMs: slowMs } })
    let old = await fleet.startWorker()
    const quiet = await fleet.during(6, async () => {})
    const waits: number[] = []
    let repeated = 0
    for (let roll = 1; roll <= rolls; roll++) {
      bench.note(`roll ${roll} of ${rolls}`)
      const stall = await fleet.during(secondsPerRoll, async () => {
        const next = await fleet.startWorker()
        await old.stop()
        old = next
      })
      waits.push(stall.worstMs)
      repeated += stall.repeated
    }
    return {
      worstMs: Math.max(...waits),
      medianMs: median(waits),
      quietWorstMs: quiet.worstMs,
      quietP99Ms: quiet.p99Ms,
      repeated,
      rolls,
    }
  },
}
