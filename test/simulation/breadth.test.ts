import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ClaimedLane, DueLane, DueRows, Store } from '../../src/store/store.ts'
import { type BreadthPlant, BreadthWorld } from './breadth-world.ts'

const seeds = 6

for (let seed = 1; seed <= seeds; seed++) {
  test(`tenants take turns from the first claim on (seed ${seed})`, () => new BreadthWorld(seed).run())
}

/** Bugs that would let one tenant take the turns of others, each put in on purpose. */
const plants: Record<string, BreadthPlant> = {
  'due lanes are found in the order of their applications alone': (store) =>
    overriding(store, {
      async findDue(_after, { applications, lanesEach }, regions) {
        const { lanes } = await store.findDue(null, { applications: 10_000, lanesEach: 10_000 }, regions)
        return { lanes: widest(lanes).slice(0, applications * lanesEach), next: null }
      },
    }),

  'a claim takes every lane that is due': (store) =>
    overriding(store, { claim: (worker, _limit, ...rest) => store.claim(worker, 100_000, ...rest) }),

  'a claim of named lanes takes others of the same application as well': (store) =>
    overriding(store, {
      async claimNamed(worker, endpoints, regions) {
        const { lanes } = await store.findDue(null, { applications: 10_000, lanesEach: 10_000 }, regions)
        const apps = new Set(lanes.flatMap(({ endpoint, app }) => (endpoints.includes(endpoint) ? [app] : [])))
        const all = lanes.filter(({ app }) => apps.has(app)).map(({ endpoint }) => endpoint)
        return store.claimNamed(worker, all, regions)
      },
    }),

  'a claim brings the rows of another lane': (store) =>
    bringing(store, (lanes) => lanes.map((lane, i) => ({ ...lane, front: lanes[(i + 1) % lanes.length]?.front }))),

  'a claim names one application for all of its lanes': (store) =>
    bringing(store, (lanes) => lanes.map((lane) => ({ ...lane, endpoint: { ...lane.endpoint, app: 1 } }))),

  'a claim leaves out the rows of a lane, and says that there are no others': (store) =>
    bringing(store, (lanes) =>
      lanes.map((lane) => {
        if (lane.endpoint.key % 64 > 0 || lane.front === undefined) return lane
        return { ...lane, front: { ...lane.front, pages: [noRows, noRows, noRows] as const } }
      }),
    ),
}

const noRows: DueRows = { rows: [], nextInMs: undefined }

/** The store with a change of what claims bring along. */
function bringing(store: Store, change: (lanes: ClaimedLane[]) => ClaimedLane[]): Store {
  return overriding(store, {
    async claim(...args) {
      const claim = await store.claim(...args)
      return { ...claim, lanes: change(claim.lanes) }
    },
    async claimNamed(...args) {
      const taken = await store.claimNamed(...args)
      return { ...taken, lanes: change(taken.lanes) }
    },
  })
}

/** The lanes of the application that has the most of them. */
function widest(lanes: readonly DueLane[]): readonly DueLane[] {
  const byApp = [...Map.groupBy(lanes, ({ app }) => app).values()]
  return byApp.reduce((most, each) => (each.length > most.length ? each : most), [] as readonly DueLane[])
}

describe('the simulation catches a planted bug:', () => {
  for (const [name, plant] of Object.entries(plants)) {
    test(name, async () => {
      for (let seed = 1; seed <= seeds; seed++) {
        const caught = await new BreadthWorld(seed, plant).run().then(
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
