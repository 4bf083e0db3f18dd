import type { Clock, EpochMs, SteadyMs } from '../domain/clock.ts'
import { type CircuitState, Health } from '../domain/health.ts'
import type { QueueTotals } from '../domain/queue-figures.ts'
import type { Slots } from '../domain/snapshot.ts'
import type { ScheduleFacts, StoreCondition, SystemFacts, WorkerFacts } from '../features/doctor/facts.ts'
import { defaultRegion } from '../features/regions/rules.ts'
import { type Delay, delayOf } from '../features/why/delay.ts'
import type { LaneGroup } from '../store/lanes.ts'
import type { Leader } from '../store/maintenance.ts'
import { type ListedWorker, type Store, StoreTrouble } from '../store/store.ts'
import type { Ledger } from './ledger.ts'
import type { RankedQueue } from './queue-book.ts'
import { Rounds } from './rounds.ts'

/** Facts are read again when they are older than this, at the next question. */
const freshMs = 5000
/** A caller waits no longer than this for the store; it gets the facts of before. */
const patienceMs = 2000
/** Lanes counted at once; a pause follows. Each takes SQLite some microseconds. */
const lanesPerPage = 500
/** Between two counts of the lanes with work. */
const countEveryMs = 10_000
/** A count of very many lanes is followed by a wait that keeps all counts to this part of the time: a two-hundredth. */
const countShare = 200
const workersListed = 200
/** Workers that died within this time are shown. */
export const deathsShownMs = 60 * 60 * 1000

/** The states of a lane with waiting deliveries, as a survey sees them. Other lanes are not looked at, however many there are. */
export const laneStates = [
  'stopped', //  its endpoint is paused or disabled
  'owned', //    a worker sends from it
  'ready', //    deliveries are due, and no worker has taken it yet
  'sleeping', // none of its deliveries may be sent yet
] as const
type SurveyedState = (typeof laneStates)[number]

export const circuitStates: readonly CircuitState[] = ['closed', 'open', 'half_open']

/** All lanes with waiting deliveries, as of the end of one count. */
interface LaneFigures {
  readonly at: SteadyMs
  readonly states: Readonly<Record<SurveyedState, number>>
  readonly circuits: Readonly<Record<CircuitState, number>>
  /** The states of the lanes of each region, up to `regionsKept`; the lanes of further regions are counted as `other`. */
  readonly regions: ReadonlyMap<string, Readonly<Record<SurveyedState, number>>>
  /** Endpoints whose circuit opened by itself and is not closed, while deliveries wait; up to `openKept`. */
  readonly openAt: readonly number[]
}

/** The waiting deliveries of the whole store. */
export interface WaitingFigures extends QueueTotals {
  /** Deliveries that were due more than a minute ago and wait for us, and not for a receiver or a limit. */
  readonly behind: number
  /** Endpoints that had work in the last minutes. */
  readonly active: number
  /** How long the oldest of them has been due; 0 without one. */
  readonly oldestDueMs: number
  /** All that were due more than a minute ago, of endpoints that are neither paused nor disabled, by whose delay it is. */
  readonly late: Readonly<Record<Delay, number>>
}

/** Queues with late deliveries whose cause is looked for, the largest first, and how many at once. */
const judgedQueues = 500
const judgedAtOnce = 100

/** Regions that are named, beside the default one. */
const regionsKept = 50
/** Endpoints with an open circuit that are named. */
const openKept = 200

/** Figures of the whole store. */
export interface StoreFigures {
  /** When the facts were read, on the clock of the process and on its steady clock. */
  readonly now: EpochMs
  readonly at: SteadyMs
  /** Whether the store answered; otherwise the other facts are those of before. */
  readonly storeUp: boolean
  /** Why the store did not answer, as a sentence; null when it did. */
  readonly trouble: string | null
  /** How far the clock of this process is ahead of the store's. */
  readonly clockAheadMs: number
  /** Undefined before the store has answered once, like the facts below. */
  readonly condition: StoreCondition | undefined
  readonly workers: readonly ListedWorker[]
  readonly leader: Leader | undefined
  /** How late the schedule is that has been due the longest; 0 when none is. */
  readonly scheduleLagMs: number
  /** Undefined before the first count has ended. */
  readonly waiting: WaitingFigures | undefined
  readonly lanes: LaneFigures | undefined
}

type FactsStore = Pick<Store, 'surveyLanes' | 'laneStates' | 'condition' | 'listWorkers' | 'leader' | 'lateSchedules'>

interface FactsDeps {
  readonly store: FactsStore
  readonly clock: Clock
  readonly ledger: Ledger
  /** Trouble with the store, which only delays the next count. */
  readonly onTrouble: (error: unknown) => void
}

const unknown = {
  condition: undefined,
  clockAheadMs: 0,
  workers: [],
  leader: undefined,
  scheduleLagMs: 0,
} as const
const late = `The store did not answer within ${patienceMs / 1000} s.`

/**
 * The facts about the whole store that metrics, the doctor, alerts and the live stream share. Queues and lanes are counted
 * in the background, in small steps, once `start` was called; the rest is read when it is asked for and kept for some
 * seconds, so that asking often costs the store no more than asking every few seconds.
 */
export class Facts {
  readonly #deps: FactsDeps
  readonly #rounds: Rounds
  #lanes: LaneFigures | undefined
  #delays: ReadonlyMap<number, Delay> = new Map()
  #read: Omit<StoreFigures, 'waiting' | 'lanes'> | undefined
  #reading: Promise<void> | undefined

  constructor(deps: FactsDeps) {
    this.#deps = deps
    this.#rounds = new Rounds(deps, countEveryMs, () => this.#countLanes(), countShare)
  }

  /** Begins to count queues and lanes. A process with an API does so, and the leader. */
  start(): void {
    if (this.isStarted) return
    this.#deps.ledger.start()
    this.#rounds.start()
  }

  stop(): void {
    this.#deps.ledger.stop()
    this.#rounds.stop()
  }

  /** Whether the process counts queues and lanes. */
  get isStarted(): boolean {
    return this.#rounds.isRunning
  }

  /** The facts, at most some seconds or `maxAgeMs` old. Never rejects, and does not wait for a store that hangs. */
  async current(maxAgeMs = freshMs): Promise<StoreFigures> {
    const { clock } = this.#deps
    if (this.#read === undefined || clock.steady() - this.#read.at >= maxAgeMs) await this.#refresh()
    const read = this.#read ?? { ...unknown, now: clock.now(), at: clock.steady(), storeUp: false, trouble: late }
    return { ...read, waiting: this.#waiting(), lanes: this.#lanes }
  }

  /** The endpoints with the most waiting deliveries, the worst first. */
  async worst(limit: number): Promise<readonly RankedQueue[]> {
    return this.#deps.ledger.worst(null, 'waiting', limit)
  }

  /** Whose delay it is that deliveries of an endpoint are late; undefined while none are, or nothing is known. */
  delayAt(endpoint: number): Delay | undefined {
    return this.#delays.get(endpoint)
  }

  #waiting(): WaitingFigures | undefined {
    const { ledger } = this.#deps
    if (!ledger.isCounted) return undefined
    const late = { ours: 0, receiver: 0, limit: 0 }
    let oldestDueMs = 0
    for (const { endpoint, count, dueMs } of ledger.late) {
      const delay = this.#delays.get(endpoint)
      if (delay === undefined) continue
      late[delay] += count
      if (delay === 'ours') oldestDueMs = Math.max(oldestDueMs, dueMs)
    }
    return { ...ledger.server(), behind: late.ours, active: ledger.active, oldestDueMs, late }
  }

  /** Finds out whose delay it is that the largest late queues are late. */
  async #judgeDelays(): Promise<void> {
    const { store, ledger, clock } = this.#deps
    await ledger.ready()
    const late = ledger.late.toSorted((a, b) => b.count - a.count).slice(0, judgedQueues)
    const { workers = [] } = this.#read ?? {}
    const alive = workers.filter(({ endedAt, leaseUntil }) => endedAt === null && leaseUntil > clock.now())
    const waiting = new Set(alive.flatMap(({ report }) => report?.waits?.endpoints ?? []))
    const delays = new Map<number, Delay>()
    for (let at = 0; at < late.length; at += judgedAtOnce) {
      if (at > 0) await this.#rounds.pause()
      const keys = late.slice(at, at + judgedAtOnce).map(({ endpoint }) => endpoint)
      for (const lane of await store.laneStates(keys)) {
        delays.set(lane.endpoint, delayOf(lane, waiting.has(lane.endpoint)))
      }
    }
    this.#delays = delays
  }

  /** Callers that ask while the facts are being read share the answer. */
  async #refresh(): Promise<void> {
    const { clock } = this.#deps
    this.#reading ??= this.#readNow().finally(() => {
      this.#reading = undefined
    })
    let cancel = () => {}
    const given = new Promise<'late'>((resolve) => {
      cancel = clock.after(patienceMs, () => resolve('late'))
    })
    const answer = await Promise.race([this.#reading, given])
    cancel()
    if (answer === 'late') this.#down(late)
  }

  async #readNow(): Promise<void> {
    const { store, clock, onTrouble } = this.#deps
    try {
      const condition = await store.condition()
      const clockAheadMs = clock.now() - condition.now
      const workers = await store.listWorkers(workersListed)
      const leader = await store.leader()
      const { now, schedules } = await store.lateSchedules(1)
      const scheduleLagMs = Math.max(0, now - (schedules[0]?.nextAt ?? now))
      const read = { now: clock.now(), at: clock.steady(), storeUp: true, trouble: null, clockAheadMs }
      this.#read = { ...read, condition, workers, leader, scheduleLagMs }
    } catch (error) {
      if (error instanceof StoreTrouble) return this.#down(error.detail ?? `${error.message}.`)
      onTrouble(error)
      this.#down('The store could not be read; the log says why.')
    }
  }

  #down(trouble: string): void {
    const { clock } = this.#deps
    this.#read = { ...(this.#read ?? unknown), now: clock.now(), at: clock.steady(), storeUp: false, trouble }
  }

  async #countLanes(): Promise<void> {
    const { store, clock } = this.#deps
    const states = noLanes()
    const regions = new Map([[defaultRegion, noLanes()]])
    const circuits = { closed: 0, open: 0, half_open: 0 }
    const openAt: number[] = []
    let after: number | null = null
    do {
      if (after !== null) await this.#rounds.pause()
      if (!this.isStarted) return
      const page: Awaited<ReturnType<Store['surveyLanes']>> = await store.surveyLanes(after, lanesPerPage)
      for (const group of page.groups) {
        states[surveyedState(group)] += group.count
        statesIn(regions, group.region)[surveyedState(group)] += group.count
        circuits[circuitOf(group)] += group.count
        if (group.endpoint !== null && openAt.length < openKept && keepsWaiting(group)) openAt.push(group.endpoint)
      }
      after = page.next
    } while (after !== null)
    await this.#judgeDelays()
    this.#lanes = { at: clock.steady(), states, circuits, regions, openAt }
  }
}

function noLanes(): Record<SurveyedState, number> {
  return { stopped: 0, owned: 0, ready: 0, sleeping: 0 }
}

/** The counts of a region, or of all regions beyond those that are named. */
function statesIn(regions: Map<string, Record<SurveyedState, number>>, region: string): Record<SurveyedState, number> {
  const name = regions.has(region) || regions.size <= regionsKept ? region : 'other'
  const found = regions.get(name) ?? noLanes()
  regions.set(name, found)
  return found
}

/** The state of a lane, the most decisive first. */
function surveyedState({ stopped, owned, due }: LaneGroup): SurveyedState {
  if (stopped) return 'stopped'
  if (owned) return 'owned'
  return due === 'now' ? 'ready' : 'sleeping'
}

/** Whether a circuit that opened by itself keeps deliveries waiting. */
function keepsWaiting({ stopped, health: text, healthAgeMs }: LaneGroup): boolean {
  if (text === null || stopped) return false
  const { circuit, manual } = new Health(text, healthAgeMs, 0)
  return circuit !== 'closed' && !manual
}

/** The state of a circuit by its stored health. An open circuit whose time is over waits for its probe. */
function circuitOf({ health: text, healthAgeMs }: LaneGroup): CircuitState {
  if (text === null) return 'closed'
  const { circuit, openUntil } = new Health(text, healthAgeMs, 0)
  if (circuit === 'closed') return 'closed'
  return circuit === 'open' && openUntil > 0 ? 'open' : 'half_open'
}

/** The facts about the system, but for dead letters, as rules judge them. `live` are slots of workers at this moment. */
export async function systemFacts(
  store: Pick<Store, 'traits' | 'lateSchedules' | 'applicationRefs'>,
  version: string,
  { workers, leader, clockAheadMs, scheduleLagMs }: StoreFigures,
  condition: StoreCondition,
  live: ReadonlyMap<number, Slots> = new Map(),
): Promise<Omit<SystemFacts, 'dead'>> {
  const { now } = condition
  return {
    now,
    traits: store.traits,
    store: condition,
    process: { version, clockAheadMs },
    workers: workers.map((worker) => workerFacts(worker, live.get(worker.worker), now)),
    hasLeader: leader !== undefined,
    lateSchedules: scheduleLagMs > 0 ? await lateSchedules(store) : [],
  }
}

const schedulesListed = 20

/** A worker as the rules of the doctor see it. `live` are its slots of this moment, where they are known. */
function workerFacts(worker: ListedWorker, live: Slots | undefined, now: EpochMs): WorkerFacts {
  const { report, endedAt, died, leaseUntil, joinedAt, seenAt } = worker
  const { inFlight = 0, inFlightLimit, waits, clockAt } = report ?? {}
  return {
    id: worker.worker,
    name: worker.description,
    version: report?.version ?? null,
    state: endedAt === null ? (leaseUntil > now ? 'alive' : 'lapsed') : died ? 'dead' : 'left',
    joinedAgoMs: Math.max(0, now - joinedAt),
    endedAgoMs: endedAt === null ? null : Math.max(0, now - endedAt),
    lanes: worker.lanes,
    slots: live ?? (inFlightLimit === undefined ? null : { inFlight, limit: inFlightLimit }),
    ...(waits !== undefined && { waits }),
    clockAheadMs: clockAt === undefined ? null : clockAt - seenAt,
  }
}

/** Schedules whose tick has passed, the latest first. */
async function lateSchedules(store: Pick<Store, 'lateSchedules' | 'applicationRefs'>): Promise<ScheduleFacts[]> {
  const { now, schedules } = await store.lateSchedules(schedulesListed)
  const apps = await store.applicationRefs(schedules.map(({ app }) => app))
  const late = schedules.map(({ id, uid, app, nextAt, failures }) => ({
    app: apps.get(app)?.uid ?? apps.get(app)?.id ?? '',
    schedule: uid ?? id,
    lateMs: Math.max(0, now - (nextAt ?? now)),
    failures,
  }))
  return late.toSorted((a, b) => b.lateMs - a.lateMs)
}
