import type { RetryPolicy } from '../../src/domain/retry.ts'
import type { NewEndpoint, Publication } from '../../src/store/store.ts'
import { type Answering, type Behaviour, startAnswering } from '../answering.ts'
import { callApi } from '../api.ts'
import type { Bench, Figures, Row, Scenario } from '../bench.ts'
import { eventType, payload } from '../event.ts'
import { percentile } from '../percentile.ts'
import { startServer, startWorker } from '../server.ts'
import { addEndpoints, emptyStore, withStore } from '../store-place.ts'

/** How long predictions are made and compared. */
const seconds = 60
/** Between two looks at a lane. */
const lookMs = 2500
/** Messages that one look asks about. */
const asked = 3
/** An instant may be off by this, or by a tenth of the time until then. */
const leastErrorMs = 2000
const errorShare = 0.1

/** A lane, its queue at the start, and its receiver. */
interface Kind {
  readonly name: string
  readonly depth: number
  readonly endpoint: Partial<NewEndpoint>
  /** New messages a second. */
  readonly arrivals?: number
  /** Ordering keys, in turns. */
  readonly keys?: number
  readonly behaviour?: Behaviour
  /** Its instants are ranges. */
  readonly isRange?: true
}

const okAfter =
  (afterMs: number): Behaviour =>
  () => ({ status: 200, afterMs })
const retriesAfter = (...ms: number[]): RetryPolicy => {
  return { waits: { kind: 'list', ms }, jitter: 'none', maxAgeMs: 3_600_000 }
}

const rateLanes = [10, 1000, 10_000, 100_000].map((depth): Kind => {
  return { name: 'rate limit', depth, endpoint: { throttleRate: Math.max(1, Math.min(400, Math.ceil(depth / 45))) } }
})
const kinds: readonly Kind[] = [
  ...rateLanes,
  ...[10, 1000, 10_000].map(
    (depth): Kind => ({
      name: 'slow at its cap',
      depth,
      endpoint: { concurrency: depth < 1000 ? 2 : 8 },
      behaviour: okAfter(depth < 1000 ? 5000 : 400),
    }),
  ),
  ...[10, 300].map(
    (depth): Kind => ({
      name: 'fifo, heads fail',
      depth,
      endpoint: { flow: { order: 'fifo' }, retry: retriesAfter(1000, 1000, 1000, 1000) } as Partial<NewEndpoint>,
      behaviour: (n) => (n % 20 === 19 ? { status: 500 } : { status: 200, afterMs: 60 }),
      isRange: true,
    }),
  ),
  {
    name: 'ordering keys',
    depth: 1000,
    keys: 20,
    endpoint: { flow: { order: 'key' }, concurrency: 8 } as unknown as Partial<NewEndpoint>,
    behaviour: okAfter(300),
  },
  {
    name: 'held again and again',
    depth: 1000,
    endpoint: { concurrency: 4 },
    behaviour: (n) => (n % 60 === 59 ? { status: 429, headers: { 'retry-after': '3' } } : { status: 200, afterMs: 50 }),
    isRange: true,
  },
  { name: 'drains with arrivals', depth: 1000, endpoint: { throttleRate: 50 }, arrivals: 25 },
  { name: 'grows', depth: 1000, endpoint: { throttleRate: 10 }, arrivals: 30 },
  {
    name: 'a retry',
    depth: 10,
    endpoint: { retry: retriesAfter(20_000, 20_000) },
    behaviour: (n) => (n < 10 ? { status: 500 } : { status: 200 }),
  },
]

interface Lane extends Kind {
  readonly path: string
  readonly app: string
  readonly endpointId: string
  readonly ids: string[]
}

interface Forecast {
  readonly kind: string
  readonly at: string | null
  readonly latest: string | null
}

interface Prediction {
  readonly lane: Lane
  readonly message: string
  readonly madeAt: number
  readonly at: number
  readonly latest: number | null
}

/** Predictions about messages and queues against what the receiver saw. */
export const truth: Scenario = {
  summary: 'predictions of why for lanes of every kind and depth, against what the receiver saw',
  targets: {
    sqlite: [
      { figure: 'instantsRight', atLeast: 0.95 },
      { figure: 'rangesRight', atLeast: 0.9 },
      { figure: 'datesForGrowing', atMost: 0 },
    ],
    postgres: [
      { figure: 'instantsRight', atLeast: 0.95 },
      { figure: 'rangesRight', atLeast: 0.9 },
      { figure: 'datesForGrowing', atMost: 0 },
    ],
  },

  async run(bench): Promise<Figures> {
    const receiver = await startAnswering(bench)
    const place = await emptyStore(bench, 'truth')
    bench.note('storing the queues')
    const lanes = await seed(place, receiver)
    const server = await startServer(bench, place, { SLUICE_FAILURES_PER_MINUTE: '0' })
    const worker = bench.store === 'postgres' ? await startWorker(bench, place) : undefined
    for (const { app, endpointId } of lanes) {
      await callApi('PATCH', `${server.api}/app/${app}/endpoint/${endpointId}`, { disabled: false })
    }
    bench.note(`predicting for ${seconds} s`)
    const { predictions, dates, growing, drains } = await predict(bench, server.api, lanes, receiver)
    const endedAt = Date.now()
    const rows = lanes.map((lane) => rowOf(lane, predictions, receiver, endedAt))
    const exact = predictions.filter(({ lane }) => lane.isRange === undefined)
    const ranges = predictions.filter(({ lane }) => lane.isRange)
    await worker?.stop()
    await server.stop()
    return {
      instantsRight: share(exact, receiver, endedAt),
      rangesRight: share(ranges, receiver, endedAt),
      datesForGrowing: dates,
      saidToGrow: growing,
      worstDrainErrorSeconds: drains,
      predictions: predictions.length,
      lanes: rows,
    }
  },
}

async function seed(place: string, receiver: Answering): Promise<Lane[]> {
  return withStore(place, async (store) => {
    const lanes: Lane[] = []
    for (const [i, kind] of kinds.entries()) {
      const path = `/${i}`
      receiver.behave(path, kind.behaviour ?? (() => ({ status: 200 })))
      const app = await store.createApplication({ name: `lane ${i}`, uid: null, throttleRate: null, metadata: {} })
      const [endpoint] = await addEndpoints(store, app.key, [
        { url: `${receiver.url}${path}`, disabled: true, ...kind.endpoint },
      ])
      if (endpoint === undefined) throw new Error('no endpoint was made')
      const { version } = (await store.subscriptions(app.key)) ?? { version: 0 }
      const isOrdered = kind.keys !== undefined || kind.endpoint.flow?.order === 'fifo'
      const ids: string[] = []
      for (let n = 0; n < kind.depth; n += 250) {
        const group = Array.from({ length: Math.min(250, kind.depth - n) }, (_, j): Publication => {
          const orderKey = kind.keys === undefined ? 0 : (n + j) % kind.keys
          return {
            ...{ app: app.key, version, eventType, eventId: null, channels: null, delayMs: 0 },
            ...{ body: Buffer.from(payload), contentType: 'application/json', endpoints: [endpoint.key] },
            ...(isOrdered && { special: [{ endpoint: endpoint.key, orderKey }] }),
          }
        })
        for (const answer of await store.publish(group)) {
          if (answer.state !== 'accepted') throw new Error('the store refused part of a queue')
          ids.push(answer.id)
        }
      }
      lanes.push({ ...kind, path, app: app.id, endpointId: endpoint.id, ids })
    }
    return lanes
  })
}

async function predict(bench: Bench, api: string, lanes: readonly Lane[], { triedAt }: Answering) {
  const predictions: Prediction[] = []
  const drainsAt: { readonly madeAt: number; readonly at: number }[] = []
  let emptyAt: number | undefined
  let [dates, growing] = [0, 0]
  const endsAt = Date.now() + seconds * 1000
  const feeding = lanes.map((lane) => feed(api, lane, endsAt))
  // The first figures of a lane are those of a moment.
  await new Promise((resolve) => setTimeout(resolve, 3000))
  while (Date.now() < endsAt) {
    const from = Date.now()
    for (const lane of lanes) {
      const waiting = lane.ids.filter((id) => !triedAt.has(`${lane.path} ${id}`))
      for (let i = 0; i < asked && waiting.length > 0; i++) {
        // Some of the next, some from afar.
        const within = i === 0 ? Math.min(waiting.length, 50) : waiting.length
        const message = waiting[Math.floor(Math.random() * within)] as string
        const madeAt = Date.now()
        const url = `${api}/app/${lane.app}/msg/${message}/endpoint/${lane.endpointId}/why`
        const why = await callApi<{ forecast: Forecast | null; asOf: string }>('GET', url)
        if (why.forecast?.at == null || why.forecast.kind === 'if_probe_succeeds') continue
        const latest = why.forecast.latest === null ? null : Date.parse(why.forecast.latest)
        predictions.push({ lane, message, madeAt, at: Date.parse(why.forecast.at), latest })
      }
      const { forecast } = await callApi<{ forecast: Forecast }>(
        'GET',
        `${api}/app/${lane.app}/endpoint/${lane.endpointId}/why`,
      )
      if (lane.name === 'grows' && Date.now() > endsAt - seconds * 1000 + 22_000) {
        if (forecast.at !== null) dates++
        if (forecast.kind === 'growing') growing++
      }
      if (lane.name !== 'drains with arrivals') continue
      if (waiting.length <= 3) emptyAt ??= Date.now()
      else if (forecast.at !== null) drainsAt.push({ madeAt: Date.now(), at: Date.parse(forecast.at) })
    }
    bench.note(`${predictions.length} predictions, ${Math.round((endsAt - Date.now()) / 1000)} s to go`)
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, lookMs - (Date.now() - from))))
  }
  await Promise.all(feeding)
  // The flows of the first seconds are not those of the rest.
  const drains = drainsAt.slice(6).map(({ at }) => Math.abs(at - (emptyAt ?? Date.now())) / 1000)
  return { predictions, dates, growing, drains: Math.max(0, ...drains) }
}

/** Publishes a lane's arrivals evenly. */
async function feed(api: string, lane: Lane, endsAt: number): Promise<void> {
  const { arrivals = 0, app } = lane
  if (arrivals === 0) return
  for (let n = 0, from = Date.now(); Date.now() < endsAt; n++) {
    const dueAt = from + (n * 1000) / arrivals
    if (dueAt > Date.now()) await new Promise((resolve) => setTimeout(resolve, dueAt - Date.now()))
    const { id } = await callApi<{ id: string }>('POST', `${api}/app/${app}/msg`, {
      eventType,
      payload: JSON.parse(payload),
    })
    lane.ids.push(id)
  }
}

/** By how much a prediction was wrong, beyond its range; undefined when its instant had not come at the end. */
function errorOf({ lane, message, at, latest }: Prediction, { triedAt }: Answering, endedAt: number) {
  const came = triedAt.get(`${lane.path} ${message}`)
  if (came === undefined) {
    const until = lane.isRange ? (latest ?? Number.POSITIVE_INFINITY) : at
    return until > endedAt ? undefined : endedAt - until
  }
  if (lane.isRange === undefined) return came - at
  if (came < at) return came - at
  return latest !== null && came > latest ? came - latest : 0
}

function isRight(prediction: Prediction, error: number, came: number): boolean {
  return Math.abs(error) <= Math.max(leastErrorMs, errorShare * (came - prediction.madeAt))
}

function judged(predictions: readonly Prediction[], receiver: Answering, endedAt: number) {
  return predictions.flatMap((prediction) => {
    const error = errorOf(prediction, receiver, endedAt)
    if (error === undefined) return []
    const came = receiver.triedAt.get(`${prediction.lane.path} ${prediction.message}`) ?? endedAt
    return [{ error, right: isRight(prediction, error, came) }]
  })
}

function share(predictions: readonly Prediction[], receiver: Answering, endedAt: number): number {
  const all = judged(predictions, receiver, endedAt)
  return all.length === 0 ? 1 : all.filter(({ right }) => right).length / all.length
}

function rowOf(lane: Lane, predictions: readonly Prediction[], receiver: Answering, endedAt: number): Row {
  const all = judged(
    predictions.filter((each) => each.lane === lane),
    receiver,
    endedAt,
  )
  const errors = all.map(({ error }) => error / 1000).toSorted((a, b) => a - b)
  return {
    lane: lane.name,
    depth: lane.depth,
    predictions: all.length,
    right: all.length === 0 ? 1 : all.filter(({ right }) => right).length / all.length,
    earliest: errors[0] ?? 0,
    median: all.length === 0 ? 0 : percentile(errors, 0.5),
    latest: errors.at(-1) ?? 0,
  }
}
