import type { Figures, Scenario } from '../bench.ts'
import { openFleet } from '../fleet-stalls.ts'
import { median } from '../percentile.ts'

const rounds = 20
const secondsPerRound = 3

/** A worker that owns half of the lanes is killed in each round, and another takes its place. */
export const takeover: Scenario = {
  summary: 'the longest wait of a delivery while a worker is killed, in 20 rounds, against a quiet fleet',
  targets: { sqlite: [], postgres: [{ figure: 'worstMs', atMost: 1000 }] },

  async run(bench): Promise<Figures> {
    const fleet = await openFleet(bench)
    let victim = await fleet.startWorker()
    const quiet = await fleet.during(secondsPerRound * 2, async () => {})
    const waits: number[] = []
    let repeated = 0
    for (let round = 1; round <= rounds; round++) {
      bench.note(`round ${round} of ${rounds}`)
      const stall = await fleet.during(secondsPerRound, () => victim.kill())
      waits.push(stall.worstMs)
      repeated += stall.repeated
      victim = await fleet.startWorker()
      await fleet.during(1, async () => {})
    }
    return {
      worstMs: Math.max(...waits),
      medianMs: median(waits),
      quietWorstMs: quiet.worstMs,
      quietP99Ms: quiet.p99Ms,
      repeated,
      rounds,
    }
  },
}
