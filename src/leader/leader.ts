import type { Clock, SteadyMs } from '../domain/clock.ts'
import { Job } from '../domain/turns.ts'
import type { Candidate } from '../store/maintenance.ts'
import type { Store } from '../store/store.ts'

/** A job that the leader does for the whole store. Two processes that do it at once do no harm. */
export interface LeaderJob {
  readonly name: string
  /** How often the job is requested. */
  readonly everyMs: number
  /** The job is first requested once the process has led for this long: a process that leads for seconds skips it. */
  readonly firstAfterMs?: number
  /**
   * Whether the process does the job even while another one leads. The job reads payloads, and a process with regions reads
   * those of its regions only: it does its part of the job itself.
   */
  readonly always?: boolean
  /** Whether the job gives lanes work, so that no process is idle before it has run. */
  readonly delivers?: boolean
  /**
   * Does a bounded part of the job. Answers whether there is more to do right away, or the time until there will be, where
   * that is known and shorter than `everyMs`.
   */
  step(): Promise<boolean | Progress>
}

export interface Progress {
  readonly more: boolean
  readonly inMs?: number | undefined
  /** How many messages were published. */
  readonly published: number
}

interface LeaderDeps {
  readonly store: Pick<Store, 'lead' | 'resign'>
  readonly clock: Clock
  readonly leaseMs: number
  readonly candidate: Candidate
  readonly jobs: readonly LeaderJob[]
  readonly log?: (sentence: string) => void
  /** Trouble with the store, or a bug; the leader goes on by itself. */
  onTrouble(job: string, error: unknown): void
}

interface Entry {
  readonly job: LeaderJob
  readonly runs: Job
  /** The step under way, or the last one. */
  underWay: Promise<unknown>
  cancel: () => void
}

/**
 * One of any number of processes that contend for the lead. It asks for the lead again and again, and does the leader jobs
 * while it has it. After a crash another process leads once the lease has run out; after a stop, at once.
 */
export class Leader {
  readonly #deps: LeaderDeps
  readonly #jobs: readonly Entry[]
  /** When a job of this process last published. */
  publishedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #state: 'new' | 'running' | 'stopped' = 'new'
  #leadsUntil: SteadyMs = Number.NEGATIVE_INFINITY
  #epoch = 0
  #asked = false
  #cancel = () => {}
  #underWay: Promise<void> = Promise.resolve()

  constructor(deps: LeaderDeps) {
    this.#deps = deps
    this.#jobs = deps.jobs.map((job) => {
      const entry: Entry = {
        job,
        runs: new Job(
          deps.clock,
          () => this.#step(entry),
          (error) => deps.onTrouble(job.name, error),
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
    for (const entry of this.#jobs) if (entry.job.always === true) this.#every(entry)
    this.#contend()
  }

  /** Whether this process leads, by its own clock, counted from before it asked. */
  get leads(): boolean {
    return this.#state === 'running' && this.#deps.clock.steady() < this.#leadsUntil
  }

  /** Requests a job before its time, if this process does it. */
  request(name: string): void {
    const entry = this.#jobs.find(({ job }) => job.name === name)
    if (entry !== undefined && this.#does(entry.job)) entry.runs.request()
  }

  /** Whether it is known which process leads, and this one has no job left that gives lanes work. */
  get isSettled(): boolean {
    if (!this.#asked) return false
    return this.#delivering().every(({ busy, endedAt }) => !busy && endedAt !== Number.NEGATIVE_INFINITY)
  }

  /** Stops the jobs, waits for the steps under way and resigns. */
  async stop(): Promise<void> {
    if (this.#state !== 'running') return
    const led = this.leads
    this.halt()
    await Promise.allSettled([this.#underWay, ...this.#jobs.map(({ underWay }) => underWay)])
    if (led) await this.#deps.store.resign(this.#deps.candidate)
  }

  /** Stops without telling the store, as a crash would. */
  halt(): void {
    this.#state = 'stopped'
    this.#cancel()
    for (const { runs, cancel } of this.#jobs) {
      runs.stop()
      cancel()
    }
  }

  /** The jobs of this process that give lanes work. */
  #delivering(): Job[] {
    return this.#jobs.filter(({ job }) => job.delivers === true && this.#does(job)).map(({ runs }) => runs)
  }

  #does(job: LeaderJob): boolean {
    return this.leads || (job.always === true && this.#state === 'running')
  }

  #contend(): void {
    this.#underWay = this.#ask()
  }

  async #ask(): Promise<void> {
    const { store, clock, candidate, leaseMs } = this.#deps
    const asked = clock.steady()
    let waitMs = leaseMs / 3
    try {
      const lead = await store.lead(candidate, leaseMs)
      if (this.#state !== 'running') return
      this.#asked = true
      if (lead.leads) this.#lead(asked, lead.epoch)
      else waitMs = Math.min(waitMs, lead.leftMs + 1)
    } catch (error) {
      this.#deps.onTrouble('lead', error)
      waitMs = leaseMs / 10
    }
    if (this.#state === 'running') this.#cancel = clock.after(waitMs, () => this.#contend())
  }

  #lead(asked: SteadyMs, epoch: number): void {
    const led = this.leads
    // A tenth less than the lease, because clocks differ.
    this.#leadsUntil = asked + this.#deps.leaseMs * 0.9
    if (led && epoch === this.#epoch) return
    this.#epoch = epoch
    this.#deps.log?.(`leading: schedules, retention and sweeps are done by this process (epoch ${epoch})`)
    for (const entry of this.#jobs) {
      if (entry.job.always === true) continue
      entry.cancel()
      const { firstAfterMs = 0 } = entry.job
      if (firstAfterMs === 0) this.#every(entry)
      else entry.cancel = this.#deps.clock.after(firstAfterMs, () => this.#every(entry))
    }
  }

  #every(entry: Entry): void {
    if (!this.#does(entry.job)) return
    entry.runs.request()
    entry.cancel = this.#deps.clock.after(entry.job.everyMs, () => this.#every(entry))
  }

  async #step(entry: Entry): Promise<boolean> {
    if (!this.#does(entry.job)) return false
    const step = entry.job.step()
    entry.underWay = step
    const done = await step
    if (typeof done === 'boolean') return done
    const { more, inMs, published } = done
    if (published > 0) this.publishedAt = this.#deps.clock.steady()
    if (!more && inMs !== undefined && inMs < entry.job.everyMs && this.#does(entry.job)) {
      entry.cancel()
      entry.cancel = this.#deps.clock.after(inMs, () => this.#every(entry))
    }
    return more
  }
}
