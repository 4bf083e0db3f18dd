import type { Scenario } from '../bench.ts'
import { measureBeside, spikeTargets } from '../beside-spike.ts'

/** 100,000 deliveries of one tenant, each on a lane of its own, by one publish. */
export const wide: Scenario = {
  summary: 'a quiet tenant beside one message for all 100,000 endpoints of an application, against alone',
  targets: { sqlite: spikeTargets, postgres: spikeTargets },
  run: (bench) => measureBeside(bench, { applications: 1, endpointsEach: 100_000 }),
}
