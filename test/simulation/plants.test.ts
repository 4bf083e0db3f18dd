import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { plants } from './plants.ts'
import { World } from './world.ts'

const seeds = 200

/** A check that nothing can fail proves nothing: each bug put in on purpose must be caught, and soon. */
describe('the simulation catches a planted bug:', () => {
  for (const [name, plant] of Object.entries(plants)) {
    test(name, async () => {
      for (let seed = plant.seed ?? 1; seed <= (plant.seed ?? 0) + seeds; seed++) {
        const caught = await new World(seed, plant).run().then(
          () => false,
          (error) => error instanceof assert.AssertionError,
        )
        if (caught) return
      }
      assert.fail(`not caught in ${seeds} seeds`)
    })
  }
})
