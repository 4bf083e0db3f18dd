import { type Class, fresh } from '../../src/domain/delivery.ts'
import type { Flow } from '../../src/domain/flow.ts'
import { type LaneSnapshot, readSnapshot, writeSnapshot } from '../../src/domain/snapshot.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import type { ClaimedLane, PendingRow, Publication, Store } from '../../src/store/store.ts'
import { plainRow } from '../engine/plain-row.ts'
import type { Plant } from './world.ts'

let loads = 0

/** Bugs that a system like this one has had somewhere, each put in on purpose. The checks must catch every one. */
export const plants: Record<string, Plant> = {
  'a retry is sent with the whole payload': {
    store: (store) =>
      overriding(store, {
        ...changingRows(store, (row) => (row.attempts > 0 ? { ...row, variant: null } : row)),
      }),
  },

  'a payload is given its form when it is sent, not when it is published': {
    store: (store) =>
      overriding(store, {
        async loadVariants(keys) {
          const name = loads++ % 2 === 0 ? '"number":' : '"count":'
          const anew = (body: Uint8Array) =>
            Buffer.from(
              Buffer.from(body)
                .toString()
                .replace(/"(number|count)":/, name),
            )
          return (await store.loadVariants(keys)).map((each) => ({ ...each, body: anew(each.body) }))
        },
      }),
  },

  'a stored signature is made anew with each attempt': {
    store: (store) =>
      overriding(store, {
        async loadVariants(keys) {
          return (await store.loadVariants(keys)).map((each) => ({
            ...each,
            signature: each.signature && 'ab'.repeat(32),
          }))
        },
      }),
  },

  'what was just stored is sent though it has been read and sent meanwhile': {
    seed: 5,
    watcher: (watcher) => ({
      ...watcher,
      stored: (messages) => watcher.stored?.(messages, Number.POSITIVE_INFINITY) ?? [],
    }),
  },

  'what was just stored is taken for another row than it is': {
    seed: 5,
    watcher: (watcher) => ({
      ...watcher,
      stored: (messages, begunAt) =>
        watcher.stored?.(
          messages.map((each) => ({ ...each, dueAt: each.dueAt + 1 })),
          begunAt,
        ) ?? [],
    }),
  },

  'a row that another process names is sent though it has been read and sent before': {
    store: (store) =>
      overriding(store, {
        async readNamed(names) {
          const row = { ...plainRow, class: fresh as Class, attempts: 0, priorAttempts: 0, ageMs: 0, lateMs: 0 }
          return { rows: names.map((name) => ({ ...row, ...name })), messages: [] }
        },
      }),
  },

  'a worker declared dead can still settle': {
    seed: 41,
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
        send(message, onLeave, onEnd) {
          onLeave()
          onEnd({
            code: 'delivered',
            status: 200,
            wish: undefined,
            retryAfterMs: undefined,
            response: undefined,
            error: undefined,
            durationMs: 0,
          })
          const none = () => {}
          return sender.open(target).send(message, none, none)
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

  'a claim brings rows that an earlier owner has settled': {
    store: (store) => {
      const fronts = new Map<number, ClaimedLane['front']>()
      return overriding(store, {
        async claim(...args) {
          const claim = await store.claim(...args)
          const lanes = claim.lanes.map((lane) => {
            const { key } = lane.endpoint
            fronts.set(key, fronts.get(key) ?? lane.front)
            return { ...lane, front: fronts.get(key) }
          })
          return { ...claim, lanes }
        },
      })
    },
  },

  'a Retry-After dies with its worker': {
    seed: 104,
    store: (store) =>
      overriding(store, {
        async claim(...args) {
          const claim = await store.claim(...args)
          return { ...claim, lanes: claim.lanes.map((lane) => ({ ...lane, holdMs: 0 })) }
        },
      }),
  },

  'an explanation leaves out a Retry-After': {
    seed: 88,
    observer: (store) =>
      overriding(store, {
        ...misquoting(store, () => ({ holdMs: 0 })),
        async findLane(endpoint) {
          const lane = await store.findLane(endpoint)
          return lane && { ...lane, holdUntil: 0 }
        },
      }),
  },

  'an explanation names a retry too late': {
    seed: 35,
    observer: (store) =>
      overriding(store, {
        async findQueued(delivery) {
          const row = await store.findQueued(delivery)
          return row && { ...row, dueAt: row.dueAt + 2000 }
        },
      }),
  },

  'an explanation names a retry too early': {
    seed: 110,
    observer: (store) =>
      overriding(store, {
        async findLane(endpoint) {
          const lane = await store.findLane(endpoint)
          return lane && { ...lane, nextTimedAt: lane.nextTimedAt && (lane.now + lane.nextTimedAt) / 2 - 2000 }
        },
      }),
  },

  'an explanation names the next token too late': {
    seed: 25,
    observer: (store) =>
      overriding(
        store,
        misquoting(store, ({ tokenMs }) => ({ tokenMs: tokenMs && tokenMs * 3 + 200 })),
      ),
  },

  'an explanation says that nothing is in flight': {
    observer: (store) =>
      overriding(
        store,
        misquoting(store, () => ({ inFlight: 0 })),
      ),
  },

  'an explanation leaves out an open circuit': {
    observer: (store) =>
      overriding(store, {
        ...misquoting(store, () => ({ silentMs: 0 })),
        async findLane(endpoint) {
          const lane = await store.findLane(endpoint)
          return lane && { ...lane, health: null, notBefore: 0 }
        },
      }),
  },

  'an explanation says that a queue is blocked when it is not': {
    observer: (store) =>
      overriding(store, {
        async findFront(...args) {
          const first = await store.findFront(...args)
          return first && { ...first, retryInMs: Number.POSITIVE_INFINITY }
        },
      }),
  },

  'an explanation leaves out a pause': {
    seed: 4,
    observer: (store) =>
      overriding(store, {
        async loadEndpoints(endpoints) {
          return (await store.loadEndpoints(endpoints)).map((endpoint) => ({ ...endpoint, paused: false }))
        },
      }),
  },

  'messages of different kinds give way to each other': {
    seed: 3,
    publisher: (store) =>
      overriding(store, {
        publish: (publications) => store.publish(publications.map((each) => ofOneKind(each))),
      }),
  },

  'a message gives way to one that nobody asked for': {
    publisher: (store) =>
      overriding(store, {
        async publish(publications) {
          const answers = await store.publish(publications)
          await store.publish(publications)
          return answers
        },
      }),
  },

  'what gives way is sent nevertheless': {
    seed: 3,
    publisher: (store) =>
      overriding(store, {
        async publish(publications) {
          const answers = await store.publish(publications)
          const merged = answers.flatMap((answer) => (answer.state === 'accepted' ? (answer.merged ?? []) : []))
          for (const endpoint of merged) await store.replay(await lastThatGaveWay(store, endpoint, publications))
          return answers
        },
      }),
  },

  'an open circuit dies with its worker': {
    seed: 3,
    store: (store) =>
      overriding(store, {
        async claim(...args) {
          const claim = await store.claim(...args)
          return { ...claim, lanes: claim.lanes.map((lane) => ({ ...lane, health: null })) }
        },
      }),
  },

  'a circuit that closes lets everything go at once': {
    seed: 10,
    store: (store) =>
      overriding(
        store,
        treating(store, ({ circuit }) =>
          circuit === null || circuit === 'off' ? {} : { circuit: { ...circuit, rampMs: 0 } },
        ),
      ),
  },

  'a 429 slows nobody down': {
    seed: 82,
    store: (store) =>
      overriding(
        store,
        treating(store, () => ({ adaptive: false })),
      ),
  },

  'every worker takes all of the rate of an application': {
    store: (store) =>
      overriding(store, {
        async shareLimits(worker, asks) {
          const answers = await store.shareLimits(worker, asks)
          const whole = { held: 3000, target: 3000 }
          return answers?.map((each) => ({ ...each, shares: { ...each.shares, rate: each.shares.rate && whole } }))
        },
      }),
  },

  'a worker keeps slots that it has told the store to give away': {
    store: (store) =>
      overriding(store, {
        async shareLimits(worker, asks) {
          const answers = await store.shareLimits(
            worker,
            asks.map((ask) => ({ ...ask, uses: { ...ask.uses, slots: 0 } })),
          )
          return answers?.map((each, i) => {
            const slots = Math.max(each.shares.slots?.held ?? 0, asks[i]?.uses.slots ?? 0)
            const kept = each.shares.slots && { held: slots, target: slots }
            return { ...each, shares: { ...each.shares, slots: kept } }
          })
        },
      }),
  },

  'nobody hears that a circuit was opened by hand': {
    seed: 18,
    store: (store) =>
      overriding(
        store,
        treating(store, () => ({ circuitOrder: null })),
      ),
  },

  'what nobody wants any more is sent all the same': {
    store: (store) =>
      overriding(store, {
        ...changingRows(store, (row) => ({ ...row, expiresInMs: null })),
      }),
  },

  'a delivery is tried however long it has waited': {
    seed: 10,
    store: (store) =>
      overriding(
        store,
        treating(store, () => ({ maxAgeMs: null })),
      ),
  },

  'what ends untried is thrown away': {
    store: (store) =>
      overriding(store, {
        settle: (worker, settlements, effects) =>
          store.settle(
            worker,
            settlements.map((each) => (each.attempt === null ? { ...each, verdict: { state: 'delivered' } } : each)),
            effects,
          ),
      }),
  },

  'a sweep ends what an owner is sending': {
    store: (store) =>
      overriding(store, {
        async readResting(after, limit, wakingMs) {
          const { counts } = await store.surveyWaiting(null, 1000)
          const impostor = await store.join({ leaseMs: 1000, description: 'impostor' })
          for (const { endpoint, app } of counts) {
            const [row] = await store.readFronts(endpoint, 1)
            if (row === undefined) continue
            const end = { endpoint, app, row, attempt: null, verdict: { state: 'dead', reason: 'overflow' } } as const
            await store.settle(impostor, [end], { holds: [], disable: [], health: [] })
          }
          await store.leave(impostor)
          return store.readResting(after, limit, wakingMs)
        },
      }),
  },

  'the newest give way instead of nobody': {
    publisher: (store) =>
      overriding(store, {
        publish: (publications) =>
          store.publish(
            publications.map((each) => ({
              ...each,
              special: [
                ...(each.special ?? []).filter(({ endpoint }) => endpoint !== each.endpoints[0]),
                ...each.endpoints.slice(0, 1).map((endpoint) => ({ endpoint, drop: 'overflow' as const })),
              ],
            })),
          ),
      }),
  },

  'what fails in an ordered lane lets the others pass': {
    store: (store) =>
      overriding(store, {
        settle: (worker, settlements, effects) =>
          store.settle(
            worker,
            settlements.map((each) =>
              each.verdict.state === 'delayed' ? { ...each, verdict: { ...each.verdict, state: 'waiting' } } : each,
            ),
            effects,
          ),
      }),
  },

  'a worker claims lanes of every region': {
    seed: 4,
    store: (store) => overriding(store, { claim: (worker, limit, ownedToo) => store.claim(worker, limit, ownedToo) }),
  },

  'a worker reads payloads of every region ahead of time': {
    seed: 4,
    reader: (store) =>
      overriding(store, {
        async claim(...args) {
          const { items } = await store.listApplications({ after: null, order: 'ascending', limit: 10 })
          const range = {
            from: 0,
            until: Number.MAX_SAFE_INTEGER,
            after: null,
            order: 'descending',
            limit: 10,
          } as const
          for (const { key } of items) {
            await store.loadMessages((await store.listMessages(key, range)).map((head) => head.key))
          }
          return store.claim(...args)
        },
      }),
  },

  'a worker keeps a lane that was moved to another region': {
    seed: 22,
    store(store) {
      const claimed = new Map<number, string | undefined>()
      return overriding(store, {
        async claim(...args) {
          const claim = await store.claim(...args)
          for (const { endpoint } of claim.lanes) claimed.set(endpoint.key, endpoint.region)
          return claim
        },
        async loadEndpoints(keys) {
          const found = await store.loadEndpoints(keys)
          return found.map((endpoint) => ({ ...endpoint, region: claimed.get(endpoint.key) }) as Endpoint)
        },
      })
    },
  },

  'a worker claims only lanes of the first of its regions': {
    seed: 34,
    patienceMs: 600_000,
    store: (store) =>
      overriding(store, {
        claim: (worker, limit, ownedToo, regions = null) =>
          store.claim(worker, limit, ownedToo, regions?.slice(0, 1) ?? null),
      }),
  },

  'an ordered lane is taken for any other': {
    store: (store) =>
      overriding(
        store,
        treating(store, () => ({ order: 'none' })),
      ),
  },

  'messages are queued without the key they are ordered by': {
    publisher: (store) =>
      overriding(store, {
        publish: (publications) =>
          store.publish(
            publications.map((each) => ({
              ...each,
              special: (each.special ?? []).map(({ orderKey: _orderKey, ...rest }) => rest),
            })),
          ),
      }),
  },
}

/** Workers see endpoints that want to be treated otherwise than they do. */
function treating(store: Store, change: (flow: Flow) => Partial<Flow>): Partial<Store> {
  const other = (endpoint: Endpoint) => ({ ...endpoint, flow: { ...endpoint.flow, ...change(endpoint.flow) } })
  return {
    async claim(...args) {
      const claim = await store.claim(...args)
      return { ...claim, lanes: claim.lanes.map((lane) => ({ ...lane, endpoint: other(lane.endpoint) })) }
    },
    loadEndpoints: async (endpoints) => (await store.loadEndpoints(endpoints)).map(other),
  }
}

/** The message that was just coalesced at an endpoint, if it is among the application's last messages. */
async function lastThatGaveWay(store: Store, endpoint: number, publications: readonly Publication[]) {
  const range = { from: 0, until: Number.MAX_SAFE_INTEGER, after: null, order: 'descending', limit: 10 } as const
  const heads = await store.listMessages(publications[0]?.app ?? 0, range)
  const deliveries = heads.map(({ key }) => ({ endpoint, message: key }))
  const gaveWay = await store.findCoalesced(deliveries)
  return deliveries.filter((_, i) => gaveWay[i] !== undefined).slice(0, 1)
}

function ofOneKind(publication: Publication): Publication {
  const { special = [] } = publication
  const alike = special.map((each) => (each.coalesce ? { ...each, coalesce: { ...each.coalesce, key: 'any' } } : each))
  return { ...publication, special: alike }
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

/** A store whose rows are changed on their way to a worker, whether it reads them or a claim brings them. */
function changingRows(store: Store, change: (row: PendingRow) => PendingRow): Pick<Store, 'readDue' | 'claim'> {
  const changed = <Page extends { readonly rows: PendingRow[] }>(page: Page): Page => ({
    ...page,
    rows: page.rows.map(change),
  })
  return {
    async readDue(reads) {
      return (await store.readDue(reads)).map(changed)
    },
    async claim(...args) {
      const claim = await store.claim(...args)
      const lanes = claim.lanes.map((lane) => {
        if (lane.front === undefined) return lane
        const [first, second, third] = lane.front.pages
        return { ...lane, front: { ...lane.front, pages: [changed(first), changed(second), changed(third)] as const } }
      })
      return { ...claim, lanes }
    },
  }
}

function overriding(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, { get: (target, name) => Reflect.get(name in methods ? methods : target, name) })
}
