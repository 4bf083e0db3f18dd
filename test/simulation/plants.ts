import { type LaneSnapshot, readSnapshot, writeSnapshot } from '../../src/domain/snapshot.ts'
import type { Store } from '../../src/store/store.ts'
import type { Plant } from './world.ts'

/** Bugs that a system like this one has had somewhere, each put in on purpose. The checks must catch every one. */
export const plants: Record<string, Plant> = {
  'a worker declared dead can still settle': {
    store: (store) =>
      overriding(store, {
        async settle(worker, settlements, effects) {
          const result = await store.settle(worker, settlements, effects)
          if (result === 'settled') return result
          const impostor = await store.join({ leaseMs: 1000, description: 'impostor' })
          try {
            return await store.settle(impostor, settlements, effects)
          } finally {
            await store.leave(impostor)
          }
        },
      }),
  },

  'a delivery is settled before it is sent': {
    sender: (sender) => ({
      ...sender,
      open: (target) => ({
        send(parcel, onLeave, onEnd) {
          onLeave()
          onEnd({
            code: 'delivered',
            status: 200,
            retryAfterMs: undefined,
            response: undefined,
            error: undefined,
            durationMs: 0,
          })
          const none = () => {}
          return sender.open(target).send(parcel, none, none)
        },
      }),
    }),
  },

  'a delivery gets one attempt too many': {
    store: (store) =>
      overriding(store, {
        async claim(...args) {
          const claim = await store.claim(...args)
          const lanes = claim.lanes.map((lane) => {
            const retry = lane.endpoint.retry
            if (!retry) return lane
            const waits =
              retry.waits.kind === 'list'
                ? { ...retry.waits, ms: [...retry.waits.ms, 100] }
                : { ...retry.waits, maxAttempts: retry.waits.maxAttempts + 1 }
            return { ...lane, endpoint: { ...lane.endpoint, retry: { ...retry, waits } } }
          })
          return { ...claim, lanes }
        },
      }),
  },

  'a bucket is full again with every new owner': {
    store: (store) =>
      overriding(store, {
        async claim(...args) {
          const claim = await store.claim(...args)
          return { ...claim, lanes: claim.lanes.map((lane) => ({ ...lane, clean: true, bucketDebtMs: 0 })) }
        },
      }),
  },

  'a Retry-After dies with its worker': {
    store: (store) =>
      overriding(store, {
        async claim(...args) {
          const claim = await store.claim(...args)
          return { ...claim, lanes: claim.lanes.map((lane) => ({ ...lane, holdMs: 0 })) }
        },
      }),
  },

  'whoever asks is not told of a Retry-After': {
    observer: (store) =>
      overriding(store, {
        ...misquoting(store, () => ({ holdMs: 0 })),
        async findLane(endpoint) {
          const lane = await store.findLane(endpoint)
          return lane && { ...lane, holdUntil: 0 }
        },
      }),
  },

  'whoever asks is told of a retry too late': {
    observer: (store) =>
      overriding(store, {
        async findQueued(delivery) {
          const row = await store.findQueued(delivery)
          return row && { ...row, dueAt: row.dueAt + 2000 }
        },
      }),
  },

  'whoever asks is told of a retry too early': {
    observer: (store) =>
      overriding(store, {
        async findLane(endpoint) {
          const lane = await store.findLane(endpoint)
          return lane && { ...lane, nextTimedAt: lane.nextTimedAt && (lane.now + lane.nextTimedAt) / 2 - 2000 }
        },
      }),
  },

  'whoever asks is told of the next token too late': {
    observer: (store) =>
      overriding(store, misquoting(store, ({ tokenMs }) => ({ tokenMs: tokenMs && tokenMs * 3 + 200 }))),
  },

  'whoever asks is told that nothing is in flight': {
    observer: (store) => overriding(store, misquoting(store, () => ({ inFlight: 0 }))),
  },

  'whoever asks is not told of a pause': {
    observer: (store) =>
      overriding(store, {
        async loadEndpoints(endpoints) {
          return (await store.loadEndpoints(endpoints)).map((endpoint) => ({ ...endpoint, paused: false }))
        },
      }),
  },
}

/** Answers of lanes' owners with something else in them. */
function misquoting(store: Store, change: (snapshot: LaneSnapshot) => Partial<LaneSnapshot>): Partial<Store> {
  return {
    async readAnswers(endpoints) {
      const answers = await store.readAnswers(endpoints)
      return answers.map((answer) => {
        const snapshot = readSnapshot(answer.snapshot)
        if (snapshot === undefined) return answer
        return { ...answer, snapshot: writeSnapshot({ ...snapshot, ...change(snapshot) }) }
      })
    },
  }
}

function overriding(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, { get: (target, name) => Reflect.get(name in methods ? methods : target, name) })
}
