import type { Task, TaskCommand, TaskCursor, TaskData, TaskStatus, TaskWork } from '../domain/task.ts'
import type { DeliveryKey } from './messages.ts'
import type { PageRequest } from './page.ts'

/** Long work, see `Task`. Whoever takes a task holds it for a lease that every step extends. */
export interface Tasks {
  createTask(task: NewTask): Promise<Task>
  findTask(id: string): Promise<Task | undefined>
  /** By key. */
  listTasks(page: PageRequest): Promise<Task[]>
  /** Takes the running task that has waited longest for somebody; undefined when all are held, resting or done. */
  takeTask(leaseMs: number): Promise<LeasedTask | undefined>
  /**
   * Does one step's work, saves where the next one goes on and extends the lease, all or nothing. `lost` means that the
   * task was taken by somebody else meanwhile: nothing was done. Answers how many deliveries were queued and purged.
   */
  advanceTask(held: LeasedTask, step: TaskStep): Promise<StepDone | 'lost'>
  /** Gives a task back, for somebody to take at once. */
  releaseTask(held: LeasedTask): Promise<void>
  /**
   * Pauses, resumes or cancels a task. A step under way when it is paused or cancelled does nothing any more. `ended`
   * means that it is past that; undefined that there is none.
   */
  commandTask(id: string, order: TaskCommand): Promise<Task | 'ended' | undefined>
}

export interface NewTask {
  readonly app: number | null
  readonly work: TaskWork
  readonly data: TaskData
}

export interface LeasedTask extends Task {
  readonly epoch: number
}

export interface TaskStep {
  readonly replay: readonly DeliveryKey[]
  /** Replays what is a dead letter still: since it was read, another task may have replayed it. */
  readonly onlyDead?: boolean
  readonly purge: readonly DeliveryKey[]
  readonly cursor: TaskCursor | null
  readonly status: TaskStatus
  readonly leaseMs: number
  /** Lets go of the task, for nobody to go on with before this time has passed, given what this step did. 0: goes on. */
  restMs(done: StepDone): number
  /** What callers see from now on, given what this step did. */
  data(done: StepDone): TaskData
}

export interface StepDone {
  readonly replayed: number
  readonly purged: number
}
