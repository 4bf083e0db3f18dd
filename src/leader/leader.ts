import type { Clock, SteadyMs } from '../domain/clock.ts'
import { Chore } from '../engine/chore.ts'
import type { Candidate } from '../store/leading.ts'
import type { Store } from '../store/store.ts'

/** Something that is done for the whole store, by whoever leads. Done twice or by two at once, it does no harm. */
export interface Duty {
  readonly name: string
  /** How often it is looked after. */
  readonly everyMs: number
  /** Whether it gives endpoints something to do, so that nothing is idle before it has been looked after. */
  readonly delivers?: boolean
  /**
   * Does a bounded part of it. Answers whether there is more to do right away, or the time until there will be, where
   * that is known and sooner than `everyMs`.
   */
  step(): Promise<boolean | Progress>
}

export interface Progress {
  readonly more: boolean
  readonly inMs: number | undefined
  /** How many messages were published. */
  readonly published: number
}

export interface LeaderParts {
  readonly store: Pick<Store, 'lead' | 'resign'>
  readonly clock: Clock
  readonly leaseMs: number
  readonly candidate: Candidate
  readonly duties: readonly Duty[]
  readonly log?: (sentence: string) => void
  /** Trouble with the store, or a bug; it goes on by itself. */
  onTrouble(duty: string, error: unknown): void
}

interface Entry {
  readonly duty: Duty
  readonly chore: Chore
  /** The step that is being done, or was last. */
  underWay: Promise<unknown>
  cancel: () => void
}

/**
 * One of any number of processes that would lead. It asks for the lead again and again; while it has it, it does the
 * duties. One that dies is followed by another when its lease has run out, one that stops at once.
 */
export class Leader {
  readonly #parts: LeaderParts
  readonly #duties: readonly Entry[]
  /** When something was last published here. */
  publishedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #state: 'new' | 'running' | 'stopped' = 'new'
  #leadsUntil: SteadyMs = Number.NEGATIVE_INFINITY
  #epoch = 0
  #asked = false
  #cancel = () => {}
  #underWay: Promise<void> = Promise.resolve()

  constructor(parts: LeaderParts) {
    this.#parts = parts
    this.#duties = parts.duties.map((duty) => {
      const entry: Entry = {
        duty,
        chore: new Chore(
          parts.clock,
          () => this.#step(entry),
          (error) => parts.onTrouble(duty.name, error),
        ),
        underWay: Promise.resolve(),
        cancel: () => {},
      }
      return entry
    })
  }

  start(): void {
    if (this.#state !== 'new') throw new Error('a leader starts once')
    this.#state = 'running'
    this.#contend()
  }

  /** Whether this process leads, for all it knows: by its own clock, counted from before it asked. */
  get leads(): boolean {
    return this.#state === 'running' && this.#parts.clock.steady() < this.#leadsUntil
  }

  /** Whether it is known who leads, and if it is this process, nothing is left that gives endpoints something to do. */
  get isSettled(): boolean {
    if (!this.#asked) return false
    return !this.leads || this.#delivering().every(({ busy, endedAt }) => !busy && endedAt !== Number.NEGATIVE_INFINITY)
  }

  /** Stops doing duties, waits for the steps under way and lets another lead. */
  async stop(): Promise<void> {
    if (this.#state !== 'running') return
    const led = this.leads
    this.halt()
    await Promise.allSettled([this.#underWay, ...this.#duties.map(({ underWay }) => underWay)])
    if (led) await this.#parts.store.resign(this.#parts.candidate)
  }

  /** Stops without a word to the store, as a crash would. */
  halt(): void {
    this.#state = 'stopped'
    this.#cancel()
    for (const { chore, cancel } of this.#duties) {
      chore.stop()
      cancel()
    }
  }

  #delivering(): Chore[] {
    return this.#duties.filter(({ duty }) => duty.delivers === true).map(({ chore }) => chore)
  }

  #contend(): void {
    this.#underWay = this.#ask()
  }

  async #ask(): Promise<void> {
    const { store, clock, candidate, leaseMs } = this.#parts
    const asked = clock.steady()
    let waitMs = leaseMs / 3
    try {
      const lead = await store.lead(candidate, leaseMs)
      if (this.#state !== 'running') return
      this.#asked = true
      if (lead.leads) this.#lead(asked, lead.epoch)
      else waitMs = Math.min(waitMs, lead.leftMs + 1)
    } catch (error) {
      this.#parts.onTrouble('lead', error)
      waitMs = leaseMs / 10
    }
    if (this.#state === 'running') this.#cancel = clock.after(waitMs, () => this.#contend())
  }

  #lead(asked: SteadyMs, epoch: number): void {
    const led = this.leads
    // A tenth less than the lease, for what clocks differ by.
    this.#leadsUntil = asked + this.#parts.leaseMs * 0.9
    if (led && epoch === this.#epoch) return
    this.#epoch = epoch
    this.#parts.log?.(`leading: schedules, retention and sweeps are done by this process (epoch ${epoch})`)
    for (const entry of this.#duties) {
      entry.cancel()
      this.#every(entry)
    }
  }

  #every(entry: Entry): void {
    if (!this.leads) return
    entry.chore.ask()
    entry.cancel = this.#parts.clock.after(entry.duty.everyMs, () => this.#every(entry))
  }

  async #step(entry: Entry): Promise<boolean> {
    if (!this.leads) return false
    const step = entry.duty.step()
    entry.underWay = step
    const done = await step
    if (typeof done === 'boolean') return done
    const { more, inMs, published } = done
    if (published > 0) this.publishedAt = this.#parts.clock.steady()
    if (!more && inMs !== undefined && inMs < entry.duty.everyMs && this.leads) {
      entry.cancel()
      entry.cancel = this.#parts.clock.after(inMs, () => this.#every(entry))
    }
    return more
  }
}
