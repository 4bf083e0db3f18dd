import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Store } from '../store/store.ts'
import { Chore } from './chore.ts'
import { TaskRunner } from './task-runner.ts'

/**
 * Does the store's tasks beside everything else. One that rests for the sake of its pace is gone on with when it has; until
 * when it rests is in the store, for whoever comes first.
 */
export class Tasks {
  readonly #clock: Clock
  readonly #runner: TaskRunner
  readonly #chore: Chore
  /** Tasks that this worker let rest, and is to go on with. */
  readonly #resting = new Set<{ readonly until: SteadyMs; readonly cancel: () => void }>()

  constructor(store: Store, clock: Clock, onTrouble: (error: unknown) => void) {
    this.#clock = clock
    this.#runner = new TaskRunner(store, (restMs) => this.#rest(restMs))
    this.#chore = new Chore(clock, () => this.#runner.step(), onTrouble)
  }

  ask(): void {
    this.#chore.ask()
  }

  get busy(): boolean {
    return this.#chore.busy
  }

  /** When the last step ended. */
  get endedAt(): SteadyMs {
    return this.#chore.endedAt
  }

  /** When the first of those that rest here goes on. */
  get nextAt(): SteadyMs {
    let nextAt = Number.POSITIVE_INFINITY
    for (const { until } of this.#resting) nextAt = Math.min(nextAt, until)
    return nextAt
  }

  stop(): void {
    for (const { cancel } of this.#resting) cancel()
    this.#chore.stop()
  }

  /** Lets somebody else go on at once, when the step under way has ended. */
  letGo(): Promise<void> {
    return this.#runner.letGo()
  }

  #rest(restMs: number): void {
    const resting = {
      until: this.#clock.steady() + restMs,
      cancel: this.#clock.after(restMs, () => {
        this.#resting.delete(resting)
        this.#chore.ask()
      }),
    }
    this.#resting.add(resting)
  }
}
