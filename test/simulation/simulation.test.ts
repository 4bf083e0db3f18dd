import { describe, test } from 'node:test'
import { World } from './world.ts'

/**
 * Workers that die, stall and are fenced, receivers that fail, hang and throttle, a store that is busy or swallows its
 * answers, clocks that jump: whatever the seed, every promise holds. Replay one: SIM_SEED=42 npm run test:sim
 */
const seeds = 200

describe('simulation', () => {
  for (let first = 1; first <= seeds; first += 50) {
    test(`seeds ${first} to ${first + 49} keep every promise`, async () => {
      for (let seed = first; seed < first + 50; seed++) await surviving(seed)
    })
  }
})

async function surviving(seed: number): Promise<void> {
  try {
    await new World(seed).run()
  } catch (error) {
    throw new Error(`seed ${seed}: ${(error as Error).message} (replay: SIM_SEED=${seed} npm run test:sim)`, {
      cause: error,
    })
  }
}
