import type { Clock } from '../domain/clock.ts'
import type { DisabledReason } from '../domain/endpoint.ts'
import type { Notice } from '../domain/notice.ts'
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
  /** What operators are to be told of it. */
  readonly notice?: Notice | undefined
  recorded(): void
}

/** What became known of a receiver and must outlive the worker. It is recorded no later than any record that follows. */
export interface News {
  readonly endpoint: number
  readonly health: string | null
  readonly notices: readonly Notice[]
  /** The endpoint is disabled for having failed this long. */
  readonly disableAfterFailingMs: number | undefined
  recorded(): void
}

/** Records ended attempts in batches. Trouble with the store is waited out: what is here has been sent already. */
export class Settler {
  readonly #parts: SettlerParts
  #waiting: Record[] = []
  #news: News[] = []
  #drops = 0
  #busy = false
  /** Somebody waits for a record: it is not delayed for the sake of others. */
  #awaited = false
  #flushPlanned = false
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
    // What is next in order waits for it to be recorded.
    if (record.settlement.inOrder) this.#awaited = true
    this.#soon()
  }

  tell(news: News): void {
    this.#news.push(news)
    this.#soon()
  }

  #soon(): void {
    if (this.#busy || this.#waitingOut) return
    if (this.#waiting.length >= batchRows) this.#flush()
    else if (this.#awaited) this.#flushThisTurn()
    else this.#cancelTimer ??= this.#parts.clock.after(delayMs, () => this.#flush())
  }

  /** Resolves when everything added so far is recorded or dropped. */
  drained(): Promise<void> {
    if (this.#isEmpty) return Promise.resolve()
    const done = new Promise<void>((resolve) => this.#idle.push(resolve))
    if (!this.#busy) this.#flush()
    return done
  }

  /** Forgets everything: this worker no longer owns it, and whoever does will send it again. */
  drop(): void {
    for (const record of this.#waiting) record.recorded()
    for (const news of this.#news) news.recorded()
    this.#waiting = []
    this.#news = []
    this.#drops++
    this.#settleIdle()
  }

  get #isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#news.length === 0
  }

  /** What else ends in this turn is recorded along. */
  #flushThisTurn(): void {
    if (this.#flushPlanned) return
    this.#flushPlanned = true
    this.#parts.clock.soon(() => {
      this.#flushPlanned = false
      if (this.#awaited && !this.#waitingOut) this.#flush()
    })
  }

  #flush(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    this.#waitingOut = false
    if (this.#busy || this.#isEmpty) return
    this.#busy = true
    this.#awaited &&= this.#waiting.length > largestBatch
    void this.#record(this.#waiting.slice(0, largestBatch), this.#news.slice())
  }

  async #record(batch: readonly Record[], news: readonly News[]): Promise<void> {
    const worker = this.#parts.worker()
    const drops = this.#drops
    let result: 'settled' | 'fenced' | 'trouble'
    try {
      const settlements = batch.map((record) => record.settlement)
      result = await this.#parts.store.settle(worker, settlements, effectsOf(batch, news))
    } catch (error) {
      if (!(error instanceof StoreTrouble)) this.#parts.onBug(error)
      result = 'trouble'
    }
    // Whatever was dropped or re-owned while the store was busy is no longer this batch's to finish.
    const current = worker === this.#parts.worker() && drops === this.#drops
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
    this.#news = this.#news.slice(news.length)
    for (const record of batch) record.recorded()
    for (const one of news) one.recorded()
    this.#parts.onSettled()
    this.#next()
  }

  #next(): void {
    if (this.#isEmpty) return this.#settleIdle()
    if (this.#waiting.length >= batchRows || this.#idle.length > 0) this.#flush()
    else if (this.#awaited) this.#flushThisTurn()
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

function effectsOf(batch: readonly Record[], news: readonly News[]): LaneEffects {
  const holds = new Map<number, number>()
  const disabled = new Map<number, LaneEffects['disable'][number]>()
  const healths = new Map<number, string | null>()
  for (const { settlement, holdMs, disable } of batch) {
    const { endpoint } = settlement
    if (holdMs !== undefined) holds.set(endpoint, Math.max(holdMs, holds.get(endpoint) ?? 0))
    if (disable !== undefined && !disabled.has(endpoint)) disabled.set(endpoint, { endpoint, reason: disable })
  }
  for (const { endpoint, health, disableAfterFailingMs: failingMs } of news) {
    healths.set(endpoint, health)
    if (failingMs !== undefined && !disabled.has(endpoint)) {
      disabled.set(endpoint, { endpoint, reason: 'failing', failingMs })
    }
  }
  return {
    holds: [...holds].map(([endpoint, holdMs]) => ({ endpoint, holdMs })),
    disable: [...disabled.values()],
    health: [...healths].map(([endpoint, health]) => ({ endpoint, health })),
    notices: noticesOf(batch, news),
  }
}

function noticesOf(batch: readonly Record[], news: readonly News[]): readonly Notice[] {
  const notices = news.flatMap((one) => one.notices)
  for (const { notice } of batch) if (notice !== undefined) notices.push(notice)
  return notices
}
