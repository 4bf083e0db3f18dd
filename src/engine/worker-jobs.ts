import type { Clock, SteadyMs } from '../domain/clock.ts'
import { oldest, trimmedTo } from '../domain/flow.ts'
import { Job } from '../domain/turns.ts'
import type { Regions } from '../features/regions/rules.ts'
import { nextStep } from '../features/steps.ts'
import { reading } from '../features/tasks/step.ts'
import type { LeasedTask } from '../features/tasks/store.ts'
import { SurplusCount } from '../store/delivering.ts'
import { type PendingRow, type Store, StoreTrouble } from '../store/store.ts'
import { Delivery } from './delivery.ts'
import type { LaneRegistry } from './lane-registry.ts'
import type { LaneRows } from './lane-rows.ts'
import type { Loop } from './loop.ts'
import type { OwnedLane } from './owned-lane.ts'
import type { Settling } from './settling.ts'

/** How often lanes are trimmed, and how soon work of other processes is noticed. */
const jobsMs = 1000
const expandRows = 1000
/** Lanes that one step moves to another region: some milliseconds of SQLite's time. */
const movedLanes = 200

/** The jobs of a worker beside delivering, each in small steps. Any worker does them, but each trims only its own lanes. */
export class WorkerJobs {
  readonly #tasks: Tasks
  readonly #expand: Job
  readonly #remove: Job
  readonly #move: Job
  readonly #trim: Job

  constructor(deps: WorkerJobsDeps) {
    const { store, clock, regions, onTrouble } = deps
    const trimmer = new Trimmer(deps)
    this.#tasks = new Tasks(store, clock, regions, onTrouble)
    this.#expand = new Job(clock, async () => (await store.expand(expandRows)).more, onTrouble)
    this.#remove = new Job(clock, async () => (await store.sweepRemoved()).more, onTrouble)
    this.#move = new Job(clock, async () => (await store.moveLanes(movedLanes)).more, onTrouble)
    this.#trim = new Job(clock, () => trimmer.step(), onTrouble)
  }

  start(loop: Pick<Loop, 'every'>): void {
    for (const job of [this.#trim, this.#expand, this.#tasks, this.#remove, this.#move])
      loop.every(jobsMs, () => job.request())
    this.#expand.request()
    this.#tasks.request()
  }

  stop(): void {
    for (const job of [this.#tasks, this.#expand, this.#remove, this.#move, this.#trim]) job.stop()
  }

  /** Queues the remaining deliveries of wide messages. */
  expand(): void {
    this.#expand.request()
  }

  /** Takes a task, if there is one. */
  lookForTasks(): void {
    this.#tasks.request()
  }

  /** Releases the task that this worker holds, for another to continue. */
  releaseTask(): Promise<void> {
    return this.#tasks.release()
  }

  /** Whether a job is under way that gives lanes work. */
  get busy(): boolean {
    return this.#expand.busy || this.#tasks.busy
  }

  /** When a job that gives lanes work last ended. */
  get endedAt(): SteadyMs {
    return Math.max(this.#expand.endedAt, this.#tasks.endedAt)
  }

  /** When a paced task will give lanes work again. */
  get nextAt(): SteadyMs {
    return this.#tasks.nextAt
  }
}

interface WorkerJobsDeps extends TrimmerDeps {
  readonly store: Store
  /** The regions of this worker, whose tasks it takes. */
  readonly regions: Regions
  onTrouble(error: unknown): void
}

/** Deliveries ended in one step. */
const chunkRows = 500

/**
 * Ends the oldest waiting deliveries of owned lanes that hold more than their limit, where the endpoint asks for that. A
 * delivery that is being sent stays, and counts.
 */
class Trimmer {
  readonly #deps: TrimmerDeps
  #round: LaneTrim[] = []

  constructor(deps: TrimmerDeps) {
    this.#deps = deps
  }

  /** Trims one lane; answers whether there are more to trim. A new round begins when the last one is over. */
  async step(): Promise<boolean> {
    if (this.#round.length === 0) {
      this.#deps.registry.each(
        (owned) => this.#limitOf(owned) && this.#round.push({ owned, counted: undefined, trimmed: false }),
      )
    }
    const trim = this.#round.at(-1)
    if (trim === undefined) return false
    const more = trim.owned.isOwned && (await this.#trim(trim))
    if (!more) this.#round.pop()
    return this.#round.length > 0
  }

  #limitOf({ endpoint, lane }: OwnedLane): number | undefined {
    return lane.closed ? undefined : trimmedTo(endpoint, this.#deps.waitingLimit)
  }

  /** Counts a page, or ends up to a chunk of deliveries; answers whether more of the lane is left to do. */
  async #trim(trim: LaneTrim): Promise<boolean> {
    const { store } = this.#deps
    const { owned } = trim
    const limit = this.#limitOf(owned)
    if (limit === undefined) return false
    const { key } = owned.endpoint
    trim.counted ??= { count: new SurplusCount(store, key, limit), endedBefore: owned.ended, surplus: undefined }
    const { counted } = trim
    if (counted.surplus === undefined) {
      counted.surplus = await counted.count.step()
      return true
    }
    // Deliveries that ended since they were counted, or whose end the store has yet to record, are no surplus.
    const excess = counted.surplus - (owned.endedOrEnding - counted.endedBefore)
    owned.markSurplus([])
    if (excess <= 0 || !owned.isOwned) {
      // More may have been there than were counted.
      trim.counted = undefined
      const countAgain = trim.trimmed
      trim.trimmed = false
      return countAgain
    }
    const { taken, waiting } = await this.#survey(owned, Math.min(excess, chunkRows))
    owned.markSurplus(waiting)
    if (taken.length > 0) await this.#end(owned, taken)
    trim.trimmed = taken.length > 0
    return trim.trimmed
  }

  /** The oldest waiting rows: those in memory end when their turn comes, the others at once. */
  async #survey(owned: OwnedLane, count: number): Promise<ReturnType<LaneRows['endSurvey']>> {
    const { store, clock } = this.#deps
    owned.rows.beginSurvey()
    const rows = await store.readFronts(owned.endpoint.key, chunkRows).catch((error) => {
      owned.rows.endSurvey([], clock.steady())
      throw error
    })
    return owned.rows.endSurvey(owned.isOwned ? oldest(rows, count) : [], clock.steady())
  }

  /** Resolves when the end of every row is recorded. */
  #end(owned: OwnedLane, rows: readonly PendingRow[]): Promise<void> {
    const { clock, settling } = this.#deps
    let left = rows.length
    return new Promise((resolve) => {
      for (const row of rows) {
        const delivery = new Delivery(owned, row, clock.steady())
        settling.unattempted(delivery, { state: 'dead', reason: 'overflow' }, () => --left === 0 && resolve())
      }
    })
  }
}

/** One lane of a round. */
interface LaneTrim {
  readonly owned: OwnedLane
  counted: Counted | undefined
  /** Whether deliveries were ended since they were counted. */
  trimmed: boolean
}

/** How many deliveries are beyond the limit, once that is known, and how many had ended before they were counted. */
interface Counted {
  readonly count: SurplusCount
  readonly endedBefore: number
  surplus: number | undefined
}

interface TrimmerDeps {
  readonly store: Pick<Store, 'surveyWaiting' | 'readFronts'>
  readonly clock: Clock
  readonly registry: LaneRegistry
  readonly settling: Settling
  /** How many deliveries may wait at an endpoint that sets no limit of its own. */
  readonly waitingLimit: number
}

/** A task whose worker has died is continued by another after this long. */
const leaseMs = 10_000

/** The store's tasks as a job of this worker. A paced task sleeps between steps; any worker may continue it then. */
class Tasks extends Job {
  readonly #clock: Clock
  readonly #runner: TaskRunner
  /** Sleeping tasks that this worker wakes for. */
  readonly #sleeping = new Set<{ readonly until: SteadyMs; readonly cancel: () => void }>()

  constructor(store: Store, clock: Clock, regions: Regions, onTrouble: (error: unknown) => void) {
    super(clock, () => this.#runner.step(), onTrouble)
    this.#clock = clock
    this.#runner = new TaskRunner(store, clock, (restMs) => this.#sleep(restMs), regions)
  }

  /** When the first sleeping task continues. */
  get nextAt(): SteadyMs {
    let nextAt = Number.POSITIVE_INFINITY
    for (const { until } of this.#sleeping) nextAt = Math.min(nextAt, until)
    return nextAt
  }

  override stop(): void {
    for (const { cancel } of this.#sleeping) cancel()
    super.stop()
  }

  /** Releases the task that this worker holds, once the step under way has ended. */
  release(): Promise<void> {
    return this.#runner.release()
  }

  #sleep(restMs: number): void {
    const sleeping = {
      until: this.#clock.steady() + restMs,
      cancel: this.#clock.after(restMs, () => {
        this.#sleeping.delete(sleeping)
        this.request()
      }),
    }
    this.#sleeping.add(sleeping)
  }
}

/** Runs the store's tasks, one step at a time. If it dies, another worker continues behind its last step. */
export class TaskRunner {
  readonly #store: Store
  readonly #clock: Clock
  readonly #onRest: (restMs: number) => void
  readonly #regions: Regions
  #leased: LeasedTask | undefined
  #underWay: Promise<boolean> | undefined

  /** `onRest` is called with the time that a paced task sleeps; the first worker to ask after that continues it. */
  constructor(store: Store, clock: Clock, onRest: (restMs: number) => void = () => {}, regions: Regions = null) {
    this.#regions = regions
    this.#store = store
    this.#clock = clock
    this.#onRest = onRest
  }

  /** Does one step of one task; answers whether there is more to do. Rejects when the store is in trouble, and after a bug. */
  step(): Promise<boolean> {
    const step = this.#step()
    this.#underWay = step
    return step
  }

  /** Releases the leased task, once the step under way has ended. */
  async release(): Promise<void> {
    // The caller of `step` gets its error.
    await this.#underWay?.catch(() => {})
    const task = this.#leased
    this.#leased = undefined
    if (task !== undefined) await this.#store.releaseTask(task)
  }

  async #step(): Promise<boolean> {
    const task = this.#leased ?? (await this.#store.takeTask(leaseMs, this.#regions))
    this.#leased = task
    if (task === undefined) return false
    try {
      await this.#advance(task)
    } catch (error) {
      this.#leased = undefined
      if (!(error instanceof StoreTrouble)) await this.#fail(task, error)
      throw error
    }
    return true
  }

  async #advance(task: LeasedTask): Promise<void> {
    const step = await nextStep(this.#store, task, this.#clock)
    const status = step.cursor === null ? 'finished' : 'running'
    let data = task.data
    let restMs = 0
    const done = await this.#store.advanceTask(task, {
      ...step,
      status,
      leaseMs,
      restMs(stepDone) {
        restMs = step.restMs(stepDone)
        return restMs
      },
      data(stepDone) {
        data = step.data(stepDone)
        return data
      },
    })
    const continues = done !== 'lost' && status === 'running'
    if (continues && restMs > 0) this.#onRest(restMs)
    this.#leased = continues && restMs === 0 ? { ...task, cursor: step.cursor, data } : undefined
    // The endpoint or the application may have moved to another region, whose workers go on with the task.
    if (this.#regions !== null && this.#leased !== undefined) {
      this.#leased = undefined
      await this.#store.releaseTask(task)
    }
  }

  /** A step that can never succeed must not be tried for ever. */
  async #fail(task: LeasedTask, error: unknown): Promise<void> {
    const message = error instanceof Error ? error.message : String(error)
    const step = reading({ ...task.data, error: message }, task.cursor)
    await this.#store.advanceTask(task, { ...step, status: 'failed', leaseMs })
  }
}
