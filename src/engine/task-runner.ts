import { type Store, StoreTrouble } from '../store/store.ts'
import type { HeldTask } from '../store/tasks.ts'
import { nextStep } from './task-steps.ts'

/** A task whose holder has died is gone on with after this long. */
const leaseMs = 10_000

/** Does the store's tasks, one step at a time. Whatever happens to it, another goes on where its last step ended. */
export class TaskRunner {
  readonly #store: Store
  readonly #onRest: (restMs: number) => void
  #held: HeldTask | undefined
  #underWay: Promise<boolean> | undefined

  /** `onRest` hears how long a task rests for the sake of its pace; it is for whoever comes first to go on with it then. */
  constructor(store: Store, onRest: (restMs: number) => void = () => {}) {
    this.#store = store
    this.#onRest = onRest
  }

  /** Does one step of one task; answers whether there is more to do. Rejects when the store is in trouble, and after a bug. */
  step(): Promise<boolean> {
    const step = this.#step()
    this.#underWay = step
    return step
  }

  /** Lets somebody else go on at once, when the step under way has ended. */
  async letGo(): Promise<void> {
    // How it ended is for whoever asked for the step.
    await this.#underWay?.catch(() => {})
    const task = this.#held
    this.#held = undefined
    if (task !== undefined) await this.#store.releaseTask(task)
  }

  async #step(): Promise<boolean> {
    const task = this.#held ?? (await this.#store.takeTask(leaseMs))
    this.#held = task
    if (task === undefined) return false
    try {
      await this.#advance(task)
    } catch (error) {
      this.#held = undefined
      if (!(error instanceof StoreTrouble)) await this.#fail(task, error)
      throw error
    }
    return true
  }

  async #advance(task: HeldTask): Promise<void> {
    const step = await nextStep(this.#store, task)
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
    const goesOn = done !== 'lost' && status === 'running'
    if (goesOn && restMs > 0) this.#onRest(restMs)
    this.#held = goesOn && restMs === 0 ? { ...task, cursor: step.cursor, data } : undefined
  }

  /** A step that can never succeed must not be tried for ever. */
  async #fail(task: HeldTask, error: unknown): Promise<void> {
    const message = error instanceof Error ? error.message : String(error)
    const data = () => ({ ...task.data, error: message })
    await this.#store.advanceTask(task, {
      replay: [],
      purge: [],
      cursor: task.cursor,
      status: 'failed',
      leaseMs,
      restMs: () => 0,
      data,
    })
  }
}
