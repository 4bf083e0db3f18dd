import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Store } from '../../src/store/store.ts'
import { type ReplayingPlant, ReplayingWorld } from './replaying-world.ts'

const seeds = 60

for (let seed = 1; seed <= seeds; seed++) {
  test(`dead letters are replayed once, at their pace, while workers die and pause (seed ${seed})`, () =>
    new ReplayingWorld(seed).run())
}

/** Bugs that replays have had, each put in on purpose. */
const plants: Record<string, ReplayingPlant> = {
  'the pace is kept by the worker alone': (store) =>
    overriding(store, {
      advanceTask: (held, step) =>
        store.advanceTask(held, {
          ...step,
          restMs(done) {
            step.restMs(done)
            return 0
          },
        }),
    }),

  'where a task has come to is saved apart from what it did': (store, clock) =>
    overriding(store, {
      async advanceTask(held, step) {
        const queued = await store.replay(step.replay)
        await new Promise<void>((resolve) => void clock.after(200, resolve))
        const saved = { ...step, replay: [] }
        return store.advanceTask(held, {
          ...saved,
          restMs: (done) => step.restMs({ ...done, replayed: queued.length }),
          data: (done) => step.data({ ...done, replayed: queued.length }),
        })
      },
    }),

  'a step that is under way when its task is paused still does its work': (store) =>
    overriding(store, {
      async advanceTask(held, step) {
        const done = await store.advanceTask(held, step)
        if (done === 'lost') await store.replay(step.replay)
        return done
      },
    }),

  'a task that is resumed begins anew': (store) =>
    overriding(store, {
      async takeTask(leaseMs) {
        const task = await store.takeTask(leaseMs)
        return task && { ...task, cursor: null }
      },
    }),
}

describe('the simulation catches a planted bug:', () => {
  for (const [name, plant] of Object.entries(plants)) {
    test(name, async () => {
      for (let seed = 1; seed <= seeds; seed++) {
        const caught = await new ReplayingWorld(seed, plant).run().then(
          () => false,
          (error) => error instanceof assert.AssertionError,
        )
        if (caught) return
      }
      assert.fail(`not caught in ${seeds} seeds`)
    })
  }
})

function overriding(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, { get: (target, name) => Reflect.get(name in methods ? methods : target, name) })
}
