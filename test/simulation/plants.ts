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
}

function overriding(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, { get: (target, name) => Reflect.get(name in methods ? methods : target, name) })
}
