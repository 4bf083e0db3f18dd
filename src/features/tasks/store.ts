import type { DeliveryKey } from '../../store/messages.ts'
import type { PageRequest } from '../../store/store.ts'
import type { AuditEntry } from '../audit/rules.ts'
import type { Erased } from '../erasure/rules.ts'
import type { Erasure } from '../erasure/store.ts'
import type { Regions } from '../regions/rules.ts'
import type { Task, TaskCommand, TaskCursor, TaskData, TaskStatus } from './rules.ts'

/** Long work, see `Task`. A worker takes a task for a lease that every step extends. */
export interface Tasks {
  createTask(task: Pick<Task, 'app' | 'work' | 'data'>): Promise<Task>
  findTask(id: string): Promise<Task | undefined>
  /** By key; without the letters that a replay names. */
  listTasks(page: PageRequest): Promise<Task[]>
  /**
   * Takes the running task that has waited longest; undefined when all are leased, paused between steps, or done. A worker
   * with regions takes a task of an endpoint or an application only if its region is among them: its steps read payloads.
   */
  takeTask(leaseMs: number, regions?: Regions): Promise<LeasedTask | undefined>
  /**
   * Does one step's work, saves where the next one goes on and extends the lease, all or nothing. `lost` means that
   * another worker took the task meanwhile: nothing was done. Answers how many deliveries were queued and purged.
   */
  advanceTask(task: LeasedTask, step: TaskStep): Promise<StepDone | 'lost'>
  /** Releases a task, for another worker to take at once. */
  releaseTask(task: LeasedTask): Promise<void>
  /**
   * Pauses, resumes or cancels a task. A step under way when it is paused or cancelled does nothing any more. `ended`
   * means that the task has ended before; undefined that there is no such task.
   */
  commandTask(id: string, command: TaskCommand): Promise<Task | 'ended' | undefined>
}

export interface LeasedTask extends Task {
  readonly epoch: number
}

export interface TaskStep {
  readonly replay: readonly DeliveryKey[]
  /** Replays only deliveries that are still dead letters: another task may have replayed some since they were read. */
  readonly onlyDead?: boolean
  readonly purge: readonly DeliveryKey[]
  /** Messages that are rid of a data subject. Their bytes are overwritten. */
  readonly erase?: readonly Erasure[]
  /** Deletes the samples of refused arrivals at this application's sources. */
  readonly forgetSamplesOf?: number
  /** Written to the audit log with the step. */
  readonly audit?: AuditEntry
  readonly cursor: TaskCursor | null
  readonly status: TaskStatus
  readonly leaseMs: number
  /** How long the task sleeps after this step, released, so that any worker may resume it. 0: it goes on at once. */
  restMs(done: StepDone): number
  /** The task's data after this step. */
  data(done: StepDone): TaskData
}

export interface StepDone {
  readonly replayed: number
  readonly purged: number
  /** Absent for a step that erases nothing. */
  readonly erased?: Erased
  /** Samples that were deleted. */
  readonly samples?: number
}
