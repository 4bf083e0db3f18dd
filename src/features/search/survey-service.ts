import type { Clock, EpochMs } from '../../domain/clock.ts'
import { Health } from '../../domain/health.ts'
import { Turns } from '../../domain/turns.ts'
import type { LaneFacts, LaneViews, QueueCount, WaitingQueues } from '../../store/lanes.ts'
import { isWorse, type QueueSort, queueSorts } from '../why/rules.ts'

/** The waiting deliveries of an application, or of all, with the endpoints that are worst off. */
export interface Survey {
  /** Endpoints with waiting deliveries. */
  readonly endpoints: number
  readonly total: number
  /** False when there were too many deliveries to count them all. */
  readonly isExact: boolean
  /** By each sort, the worst first, up to `worstKept`. */
  readonly worst: Readonly<Record<QueueSort, readonly CountedQueue[]>>
}

/** The queue of an endpoint. */
export interface CountedQueue extends QueueCount {
  readonly app: number
  /** Whether every delivery was counted. */
  readonly isExact: boolean
  /** By class, for a queue that is longer than its lane's facts count. */
  readonly waiting?: LaneFacts['waiting']
}

/** Counts the queue of an endpoint in small steps with a turn for others in between; about `rows` of it at most. */
export async function countQueue(
  store: Pick<WaitingQueues, 'countPart'>,
  clock: Clock,
  endpoint: number,
  rows = rowsLimit,
): Promise<Omit<CountedQueue, 'app'>> {
  const waiting: [number, number, number] = [0, 0, 0]
  let [count, oldest, next]: [number, EpochMs, QueuePart['next']] = [0, Number.MAX_SAFE_INTEGER, null]
  do {
    if (count >= rows) return { endpoint, count, oldest, waiting, isExact: false }
    await Turns.by(clock).next()
    const part: QueuePart = await store.countPart(endpoint, next, steps.part)
    for (const itsClass of [0, 1, 2] as const) {
      waiting[itsClass] += part.waiting[itsClass]
      count += part.waiting[itsClass]
    }
    oldest = Math.min(oldest, part.oldest ?? oldest)
    next = part.next
  } while (next !== null)
  return { endpoint, count, oldest, waiting, isExact: true }
}

/** The endpoints that a survey names at most. */
export const worstKept = 100

// Each step reads at most 4,000 rows, which takes SQLite one or two milliseconds. Most queues are empty or short, so many
// are looked at together; a longer one is counted with few others, and a long one alone, in parts.
const steps = { endpoints: 250, front: 16, together: 16, longer: 250, part: 4000 } as const
/** Rows beyond the fronts that one survey counts. */
const rowsLimit = 1_000_000

/**
 * Counts the waiting deliveries of every endpoint of an application, or of all applications, in small steps with a turn for
 * others in between. Over all applications only endpoints with waiting deliveries are looked at. Beyond a million deliveries, queues are counted by their fronts only and the survey is not exact.
 */
export async function surveyQueues(
  store: WaitingQueues,
  clock: Clock,
  app: number | null,
  rows = rowsLimit,
): Promise<Survey> {
  const turns = Turns.by(clock)
  const worst: Record<QueueSort, CountedQueue[]> = { waiting: [], age: [] }
  let [endpoints, total, isExact, room] = [0, 0, true, rows]

  function add(queue: CountedQueue): void {
    endpoints++
    total += queue.count
    isExact &&= queue.isExact
    for (const sort of queueSorts) rank(worst[sort], queue, sort)
  }

  /** Counts queues whose fronts are known, as far as there is room. */
  async function* counted(fronts: readonly QueueCount[]): AsyncGenerator<Omit<CountedQueue, 'app'>> {
    const longer: number[] = []
    for (const each of fronts) {
      if (each.count < steps.front) yield { ...each, isExact: true }
      else if (room <= 0) yield { ...each, isExact: false }
      else longer.push(each.endpoint)
    }
    for (let at = 0; at < longer.length; at += steps.together) {
      await turns.next()
      for (const each of await store.countFronts(longer.slice(at, at + steps.together), steps.longer)) {
        room -= each.count
        if (each.count < steps.longer) yield { ...each, isExact: true }
        else {
          const whole = await countQueue(store, clock, each.endpoint, room)
          room -= whole.count
          yield { ...whole, count: Math.max(whole.count, each.count), oldest: Math.min(whole.oldest, each.oldest) }
        }
      }
    }
  }

  for await (const page of app === null ? queuedPages(store, clock) : endpointPages(store, clock, app)) {
    const apps = new Map(page.map((row) => [row.endpoint, row.app]))
    for await (const queue of counted(await store.countFronts([...apps.keys()], steps.front))) {
      add({ ...queue, app: apps.get(queue.endpoint) ?? 0 })
    }
  }
  return { endpoints, total, isExact, worst }
}

type QueuedPage = Awaited<ReturnType<WaitingQueues['queuedEndpoints']>>
type EndpointKeys = Awaited<ReturnType<WaitingQueues['endpointKeys']>>

/** The endpoints of an application, or of all, in small pages with a turn for others before and after each. */
async function* endpointPages(
  store: Pick<WaitingQueues, 'endpointKeys'>,
  clock: Clock,
  app: number | null,
): AsyncGenerator<EndpointKeys> {
  const turns = Turns.by(clock)
  for (let after: number | null = null; ; await turns.next()) {
    const page: EndpointKeys = await store.endpointKeys(app, after, steps.endpoints)
    await turns.next()
    yield page
    if (page.length < steps.endpoints) return
    after = page.at(-1)?.endpoint ?? null
  }
}

/** As `endpointPages`, for the endpoints of all applications that deliveries wait for. */
async function* queuedPages(
  store: Pick<WaitingQueues, 'queuedEndpoints'>,
  clock: Clock,
): AsyncGenerator<QueuedPage['endpoints']> {
  const turns = Turns.by(clock)
  for (let after: number | null = null; ; await turns.next()) {
    const page: QueuedPage = await store.queuedEndpoints(after, steps.endpoints)
    await turns.next()
    yield page.endpoints
    if (page.next === null) return
    after = page.next
  }
}

/** Puts a queue in its place among the worst, if it is one of them. */
function rank(worst: CountedQueue[], queue: CountedQueue, sort: QueueSort): void {
  const last = worst.at(-1)
  if (worst.length === worstKept && last !== undefined && !isWorse(queue, last, sort)) return
  const at = worst.findIndex((other) => isWorse(queue, other, sort))
  worst.splice(at < 0 ? worst.length : at, 0, queue)
  worst.length = Math.min(worst.length, worstKept)
}

/**
 * The endpoints whose receivers have failed for longest, by their stored health, up to `worstKept`. Walks all endpoints in
 * small steps with a turn for others in between.
 */
export async function surveyFailing(
  store: Pick<WaitingQueues & LaneViews, 'endpointKeys' | 'laneStates'>,
  clock: Clock,
  app: number | null,
): Promise<readonly number[]> {
  const failing: { readonly endpoint: number; readonly since: EpochMs }[] = []
  for await (const page of endpointPages(store, clock, app)) {
    const keys = page.map(({ endpoint }) => endpoint)
    for (const { endpoint, now, health, healthAgeMs } of await store.laneStates(keys)) {
      if (health === null) continue
      const { failingSince } = new Health(health, healthAgeMs, now)
      if (failingSince !== undefined) failing.push({ endpoint, since: failingSince })
    }
    failing.sort((a, b) => a.since - b.since).splice(worstKept)
  }
  return failing.map(({ endpoint }) => endpoint)
}

type QueuePart = Awaited<ReturnType<WaitingQueues['countPart']>>
