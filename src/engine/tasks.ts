import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Regions } from '../domain/region.ts'
import { type Store, StoreTrouble } from '../store/store.ts'
import type { LeasedTask } from '../store/tasks.ts'
import { Job } from './job.ts'
import { nextStep, reading } from './task-steps.ts'

/** A task whose worker has died is continued by another after this long. */
const leaseMs = 10_000

/** The store's tasks as a job of this worker. A paced task sleeps between steps; any worker may continue it then. */
export class Tasks extends Job {
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
