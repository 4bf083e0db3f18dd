import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Store, StoreTrouble } from '../../src/store/store.ts'
import { type LeadingPlant, LeadingWorld } from './leading-world.ts'

const seeds = 40

for (let seed = 1; seed <= seeds; seed++) {
  test(`every tick is published once while leaders die (seed ${seed})`, () => new LeadingWorld(seed).run())
}

/** Bugs that schedulers have had, each put in on purpose. */
const plants: Record<string, LeadingPlant> = {
  'a tick is published before the schedule moves on': (store) =>
    overriding(store, {
      async advanceSchedule(schedule, step) {
        if (step.publication === null) return store.advanceSchedule(schedule, step)
        const [answer] = await store.publish([{ ...step.publication, eventId: null, once: [] }])
        if (answer?.state !== 'accepted') return answer ?? { state: 'moved' }
        await store.advanceSchedule(schedule, { ...step, publication: null })
        return answer
      },
    }),

  'a schedule moves on before its tick is published': (store) => {
    let ticks = 0
    return overriding(store, {
      async advanceSchedule(schedule, step) {
        if (step.publication === null) return store.advanceSchedule(schedule, step)
        const moved = await store.advanceSchedule(schedule, { ...step, publication: null })
        if (moved.state !== 'advanced') return moved
        if (++ticks % 10 === 0) throw new StoreTrouble('busy')
        const [answer] = await store.publish([step.publication])
        return answer ?? { state: 'moved' }
      },
    })
  },

  'everybody leads, and nobody compares before it sets': (store) =>
    overriding(store, {
      lead: async () => ({ leads: true, epoch: 1, leftMs: 5000 }),
      async advanceSchedule(schedule, step) {
        for (let revision = schedule.revision; revision < schedule.revision + 50; revision++) {
          const publication = step.publication && { ...step.publication, eventId: null, once: [] }
          const answer = await store.advanceSchedule({ ...schedule, revision }, { ...step, publication })
          if (answer.state !== 'moved') return answer
        }
        return { state: 'moved' }
      },
    }),

  'a lead is never given up': (store) => {
    let first: string | undefined
    return overriding(store, {
      async lead(candidate) {
        first ??= candidate.id
        return { leads: candidate.id === first, epoch: 1, leftMs: 5000 }
      },
    })
  },
}

describe('the simulation catches a planted bug:', () => {
  for (const [name, plant] of Object.entries(plants)) {
    test(name, async () => {
      for (let seed = 1; seed <= seeds; seed++) {
        const caught = await new LeadingWorld(seed, plant).run().then(
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
