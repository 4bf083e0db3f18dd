import type { Scenario } from '../bench.ts'
import { measureBeside, spikeTargets } from '../beside-spike.ts'

/** 100,000 deliveries that need 100,000 lanes, of 1,000 tenants, at once. */
export const broad: Scenario = {
  summary: 'a quiet tenant beside one message to each of 1,000 applications with 100 endpoints, against alone',
  targets: { sqlite: spikeTargets, postgres: spikeTargets },
  run: (bench) => measureBeside(bench, { applications: 1000, endpointsEach: 100 }),
}
