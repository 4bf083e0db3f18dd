import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Store } from '../store/store.ts'
import { Chore } from './chore.ts'
import type { NoticeWishes } from './notice-wishes.ts'
import type { Rhythm } from './rhythm.ts'
import { Tasks } from './tasks.ts'
import type { Trimmer } from './trimmer.ts'

/** How soon a message for very many endpoints that another process took in is expanded. */
const expandMs = 1000
const expandRows = 1000
/** How soon a task that was asked for begins. */
const tasksMs = 1000
/** Between two looks at lanes whose oldest give way when too many wait. */
const trimMs = 1000
/** How soon what a deleted endpoint left behind begins to be removed. */
const removeMs = 1000
/** How soon somebody who wants to hear of failing messages does. */
const wishesMs = 5000

/** What a worker does beside delivering, in small steps. Any worker may do any of it, but for its own lanes' trimming. */
export class Chores {
  readonly #tasks: Tasks
  readonly #expanding: Chore
  readonly #removing: Chore
  readonly #trimming: Chore
  readonly #wishing: Chore

  constructor({ store, clock, trimmer, wishes, onTrouble }: ChoresParts) {
    this.#tasks = new Tasks(store, clock, onTrouble)
    this.#expanding = new Chore(clock, () => store.expand(expandRows), onTrouble)
    this.#removing = new Chore(clock, async () => (await store.sweepRemoved()).more, onTrouble)
    this.#trimming = new Chore(clock, () => trimmer.step(), onTrouble)
    this.#wishing = new Chore(clock, () => wishes.lookUp().then(() => false), onTrouble)
  }

  start(rhythm: Rhythm): void {
    rhythm.every(trimMs, () => this.#trimming.ask())
    rhythm.every(expandMs, () => this.#expanding.ask())
    rhythm.every(tasksMs, () => this.#tasks.ask())
    rhythm.every(removeMs, () => this.#removing.ask())
    rhythm.every(wishesMs, () => this.#wishing.ask())
    this.#wishing.ask()
    this.#expanding.ask()
    this.#tasks.ask()
  }

  stop(): void {
    for (const chore of [this.#tasks, this.#expanding, this.#removing, this.#trimming, this.#wishing]) chore.stop()
  }

  /** Queues what a message for very many endpoints has yet to bring. */
  expand(): void {
    this.#expanding.ask()
  }

  /** Lets another worker go on with the task that is held here. */
  letGo(): Promise<void> {
    return this.#tasks.letGo()
  }

  /** Whether something that gives lanes work is under way. */
  get busy(): boolean {
    return this.#expanding.busy || this.#tasks.busy
  }

  /** When something that gives lanes work last ended. */
  get endedAt(): SteadyMs {
    return Math.max(this.#expanding.endedAt, this.#tasks.endedAt)
  }

  /** When something that rests will give lanes work again. */
  get nextAt(): SteadyMs {
    return this.#tasks.nextAt
  }
}

export interface ChoresParts {
  readonly store: Store
  readonly clock: Clock
  readonly trimmer: Trimmer
  readonly wishes: NoticeWishes
  onTrouble(error: unknown): void
}
