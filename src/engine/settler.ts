import type { Clock } from '../domain/clock.ts'
import type { DisabledReason } from '../domain/endpoint.ts'
import { type LaneEffects, type Settlement, type Store, StoreTrouble } from '../store/store.ts'

/**
 * Recording one attempt costs a commit, recording many costs hardly more, and nobody waits for either. What is here when
 * the process dies is sent again, so it is not kept long. Draining a backlog at 20,000/s, 512 rows or 15 ms instead of
 * 256 or 5 ms took 10% off the CPU per delivery: neighbours in the file are then written once.
 */
const batchRows = 512
const largestBatch = 1024
const delayMs = 15
const firstRetryMs = 50
const lastRetryMs = 2000

/** One ended attempt to record; `recorded` is called once it is durable or no longer ours to record. */
export interface Record {
  readonly settlement: Settlement
  readonly holdMs: number | undefined
  readonly disable: DisabledReason | undefined
  /** The receiver's health, when it changed in a way that must outlive the worker. */
  readonly health: string | undefined
  recorded(): void
}

/** Records ended attempts in batches. Trouble with the store is waited out: what is here has been sent already. */
export class Settler {
  readonly #parts: SettlerParts
  #waiting: Record[] = []
  #busy = false
  /** The store was in trouble and is left alone until the timer. */
  #waitingOut = false
  #cancelTimer: (() => void) | undefined
  #retryMs = firstRetryMs
  #idle: (() => void)[] = []

  constructor(parts: SettlerParts) {
    this.#parts = parts
  }

  /** Attempts ended and not recorded. */
  get size(): number {
    return this.#waiting.length
  }

  /** Those attempts, in the order they ended. */
  records(): Iterable<Record> {
    return this.#waiting
  }

  add(record: Record): void {
    this.#waiting.push(record)
    if (this.#busy || this.#waitingOut) return
    if (this.#waiting.length >= batchRows) this.#flush()
    else this.#cancelTimer ??= this.#parts.clock.after(delayMs, () => this.#flush())
  }

  /** Resolves when everything added so far is recorded or dropped. */
  drained(): Promise<void> {
    if (this.#waiting.length === 0) return Promise.resolve()
    const done = new Promise<void>((resolve) => this.#idle.push(resolve))
    if (!this.#busy) this.#flush()
    return done
  }

  /** Forgets everything: this worker no longer owns it, and whoever does will send it again. */
  drop(): void {
    for (const record of this.#waiting) record.recorded()
    this.#waiting = []
    this.#settleIdle()
  }

  #flush(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    this.#waitingOut = false
    if (this.#busy || this.#waiting.length === 0) return
    this.#busy = true
    void this.#record(this.#waiting.slice(0, largestBatch))
  }

  async #record(batch: readonly Record[]): Promise<void> {
    const worker = this.#parts.worker()
    let result: 'settled' | 'fenced' | 'trouble'
    try {
      const settlements = batch.map((record) => record.settlement)
      result = await this.#parts.store.settle(worker, settlements, effectsOf(batch))
    } catch (error) {
      if (!(error instanceof StoreTrouble)) this.#parts.onBug(error)
      result = 'trouble'
    }
    // Whatever was dropped or re-owned while the store was busy is no longer this batch's to finish.
    const current = worker === this.#parts.worker() && this.#waiting[0] === batch[0]
    this.#busy = false
    if (!current) return this.#next()
    if (result === 'trouble') {
      this.#waitingOut = true
      this.#cancelTimer ??= this.#parts.clock.after(this.#retryMs, () => this.#flush())
      this.#retryMs = Math.min(lastRetryMs, this.#retryMs * 2)
      return
    }
    this.#retryMs = firstRetryMs
    if (result === 'fenced') {
      this.drop()
      return this.#parts.onFenced()
    }
    this.#waiting = this.#waiting.slice(batch.length)
    for (const record of batch) record.recorded()
    this.#parts.onSettled()
    this.#next()
  }

  #next(): void {
    if (this.#waiting.length === 0) return this.#settleIdle()
    if (this.#waiting.length >= batchRows || this.#idle.length > 0) this.#flush()
    else this.#cancelTimer ??= this.#parts.clock.after(delayMs, () => this.#flush())
  }

  #settleIdle(): void {
    const idle = this.#idle
    this.#idle = []
    for (const resolve of idle) resolve()
  }
}

export interface SettlerParts {
  readonly store: Pick<Store, 'settle'>
  readonly clock: Clock
  worker(): number
  onSettled(): void
  /** The worker was declared dead: nothing was recorded. */
  onFenced(): void
  onBug(error: unknown): void
}

function effectsOf(batch: readonly Record[]): LaneEffects {
  const holds = new Map<number, number>()
  const disabled = new Map<number, DisabledReason>()
  const healths = new Map<number, string>()
  for (const { settlement, holdMs, disable, health } of batch) {
    const { endpoint } = settlement
    if (holdMs !== undefined) holds.set(endpoint, Math.max(holdMs, holds.get(endpoint) ?? 0))
    if (disable !== undefined && !disabled.has(endpoint)) disabled.set(endpoint, disable)
    if (health !== undefined) healths.set(endpoint, health)
  }
  return {
    holds: [...holds].map(([endpoint, holdMs]) => ({ endpoint, holdMs })),
    disable: [...disabled].map(([endpoint, reason]) => ({ endpoint, reason })),
    health: [...healths].map(([endpoint, health]) => ({ endpoint, health })),
  }
}
