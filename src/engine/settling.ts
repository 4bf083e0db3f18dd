import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { HealthChange } from '../domain/health.ts'
import { invariant } from '../domain/invariant.ts'
import type { LaneEffect, Verdict } from '../domain/judge.ts'
import { counts, writeTimings } from '../domain/outcome.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { type DisabledReason, managementApplication } from '../features/endpoints/rules.ts'
import { attemptNotice, type Notice } from '../features/notices/rules.ts'
import { type LaneEffects, type Settlement, type Store, StoreTrouble } from '../store/store.ts'
import type { Delivery, OrderedState } from './delivery.ts'
import type { JudgedAttempt } from './ended-attempt.ts'
import type { Loop } from './loop.ts'
import type { Membership } from './membership.ts'
import type { OwnedLane } from './owned-lane.ts'
import type { Reader } from './reader.ts'

/** Settles deliveries: says what is recorded of each, and brings its lane in line once that is durable. */
export class Settling {
  readonly #deps: SettlingDeps

  constructor(deps: SettlingDeps) {
    this.#deps = deps
  }

  /** An attempt ended, and the verdict on its delivery is decided. */
  attempted(judged: JudgedAttempt): void {
    const { clock } = this.#deps
    const { delivery, outcome, verdict, effect, id } = judged
    const { startedAt } = delivery
    const attempt = {
      id,
      startedAgoMs: () => Math.round(clock.steady() - startedAt),
      durationMs: Math.round(outcome.durationMs),
      status: outcome.status,
      code: outcome.code,
      error: outcome.error ?? null,
      response: outcome.response ?? null,
      responseHeaders: outcome.responseHeaders,
      timings: outcome.timings === undefined ? null : writeTimings(outcome.timings),
      waitedMs: startedAt - delivery.bornAt,
      heldUpMs: delivery.heldUpMs,
      lateMs: delivery.lateMs,
    }
    this.#add(delivery, verdict, attempt, effect, this.#noticeOf(judged))
  }

  /** A delivery that is not being sent gets a verdict without an attempt. `onRecorded` follows once that is recorded. */
  unattempted(delivery: Delivery, verdict: Verdict, onRecorded?: () => void): void {
    this.#add(delivery, verdict, null, noEffect, undefined, onRecorded)
  }

  /** As `unattempted`, for a delivery that waits. In an ordered lane it keeps its place until that is recorded. */
  waitingEnds(delivery: Delivery, verdict: Verdict): void {
    delivery.ordered?.beginEnding(this.#deps.clock.steady())
    this.unattempted(delivery, verdict)
  }

  /** The health of a lane's receiver changed in a way that its next owner must know. */
  healthChanged(owned: OwnedLane, change: HealthChange, now: SteadyMs): void {
    const { scheduler, queue } = this.#deps
    const endpoint = owned.endpoint.key
    scheduler.reconsider(owned.lane, now)
    owned.beginSettle()
    queue.addHealth({
      endpoint,
      health: owned.health.toText(now),
      notices: change.notices.map((notice) => ({ ...notice, endpoint })),
      disableAfterFailingMs: change.disableAfterFailingMs,
      onRecorded: () => owned.healthSettled(),
    })
  }

  #add(
    delivery: Delivery,
    verdict: Verdict,
    attempt: Settlement['attempt'],
    { holdMs, disable }: LaneEffect,
    notice: Notice | undefined,
    onRecorded?: () => void,
  ): void {
    const { owned, row } = delivery
    const { key: endpoint, app } = owned.endpoint
    const inOrder = delivery.ordered !== undefined
    owned.beginSettle()
    this.#deps.queue.add({
      settlement: { endpoint, app, row, attempt, verdict, inOrder },
      holdMs,
      disable: disable ? 'gone' : undefined,
      notice,
      onRecorded: () => {
        this.#recorded(delivery, verdict)
        onRecorded?.()
      },
    })
  }

  /** A verdict is durable, or no longer this worker's to record. */
  #recorded(delivery: Delivery, verdict: Verdict): void {
    const { clock, loop } = this.#deps
    const { owned, row, ordered } = delivery
    owned.settled(row.message, verdict)
    if (ordered) this.#letNextStart(owned, ordered, verdict)
    if (verdict.state === 'waiting') loop.expectTimed(owned, clock.steady() + verdict.waitMs)
  }

  /** The next delivery in order may start. If an operator skipped this one while it was being sent, it ends now. */
  #letNextStart(owned: OwnedLane, ordered: OrderedState, verdict: Verdict): void {
    const { clock, scheduler, reader, loop } = this.#deps
    const now = clock.steady()
    ordered.recorded(verdict, now)
    scheduler.reconsider(owned.lane, now)
    if (ordered.isSkipped) owned.rows.recheck()
    reader.requestAll(owned)
    loop.wake()
  }

  /** The notice of an attempt: seldom one at all. The store writes it only if an operational webhook subscribes to it. */
  #noticeOf({ delivery, outcome, verdict, id, at }: JudgedAttempt): Notice | undefined {
    const { owned, row, startedAt } = delivery
    const type = counts(outcome.code) ? attemptNotice(verdict.state, row.attempts) : undefined
    if (type === undefined || owned.endpoint.app === managementApplication) return undefined
    const timestamp = new Date(this.#deps.clock.now() - Math.round(at - startedAt)).toISOString()
    const lastAttempt = { id, responseStatusCode: outcome.status, timestamp }
    return { type, endpoint: owned.endpoint.key, message: row.message, data: { lastAttempt } }
  }
}

const noEffect: LaneEffect = { holdMs: undefined, disable: false }

interface SettlingDeps {
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  readonly queue: SettleQueue
  readonly reader: Reader
  readonly loop: Loop
}

/**
 * A batch costs the store hardly more than one entry, and no caller waits for it. Entries that are here when the process
 * dies are sent again, so none stays long. Draining a backlog at 20,000/s, 512 rows or 15 ms instead of 256 or 5 ms took 10%
 * off the CPU per delivery: neighbours in the file are then written once.
 */
const batchRows = 512
const largestBatch = 1024
const delayMs = 15
invariant(batchRows <= largestBatch, 'a batch that is full fits into the largest')
const firstRetryMs = 50
const lastRetryMs = 2000

/** One verdict to record. */
export interface SettleEntry {
  readonly settlement: Settlement
  readonly holdMs: number | undefined
  readonly disable: DisabledReason | undefined
  readonly notice?: Notice | undefined
  /** The entry is durable, or no longer this worker's to record. */
  onRecorded(): void
}

/** A change of a receiver's health to record. It is recorded no later than any entry that follows. */
interface HealthUpdate {
  readonly endpoint: number
  readonly health: string | null
  readonly notices: readonly Notice[]
  /** The endpoint is disabled because it has failed for this long. */
  readonly disableAfterFailingMs: number | undefined
  /** The update is durable, or no longer this worker's to record. */
  onRecorded(): void
}

/** Entries on their way to the store, recorded in batches. Trouble with the store is waited out: the attempts were made. */
export class SettleQueue {
  readonly #deps: SettleQueueDeps
  #entries: SettleEntry[] = []
  #updates: HealthUpdate[] = []
  #drops = 0
  #busy = false
  /** The next delivery of an ordered lane waits for an entry, which therefore does not wait for others. */
  #urgent = false
  #flushPlanned = false
  /** The store was in trouble and is left alone until the timer. */
  #waitingOut = false
  #cancelTimer: (() => void) | undefined
  #retryMs = firstRetryMs
  #awaitingEmpty: (() => void)[] = []

  constructor(deps: SettleQueueDeps) {
    this.#deps = deps
  }

  /** Entries that are not recorded yet. */
  get size(): number {
    return this.#entries.length
  }

  /** The unrecorded entries, oldest first. */
  entries(): Iterable<SettleEntry> {
    return this.#entries
  }

  add(entry: SettleEntry): void {
    this.#entries.push(entry)
    if (entry.settlement.inOrder) this.#urgent = true
    this.#plan()
  }

  addHealth(update: HealthUpdate): void {
    this.#updates.push(update)
    this.#plan()
  }

  /** Resolves when everything added so far is recorded or dropped. */
  drained(): Promise<void> {
    if (this.#isEmpty) return Promise.resolve()
    const done = new Promise<void>((resolve) => this.#awaitingEmpty.push(resolve))
    this.#flush()
    return done
  }

  /** Drops everything: this worker no longer owns the lanes, and their next owners send the deliveries again. */
  drop(): void {
    const dropped = [...this.#entries, ...this.#updates]
    this.#entries = []
    this.#updates = []
    this.#drops++
    for (const each of dropped) each.onRecorded()
    this.#resolveEmpty()
  }

  get #isEmpty(): boolean {
    return this.#entries.length === 0 && this.#updates.length === 0
  }

  #plan(): void {
    if (this.#busy || this.#waitingOut) return
    if (this.#entries.length >= batchRows) this.#flush()
    else if (this.#urgent) this.#flushThisTurn()
    else this.#cancelTimer ??= this.#deps.clock.after(delayMs, () => this.#flush())
  }

  /** Entries that are added until the turn ends go along. */
  #flushThisTurn(): void {
    if (this.#flushPlanned) return
    this.#flushPlanned = true
    this.#deps.clock.soon(() => {
      this.#flushPlanned = false
      if (this.#urgent && !this.#waitingOut) this.#flush()
    })
  }

  #flush(): void {
    if (this.#busy) return
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    this.#waitingOut = false
    if (this.#isEmpty) return
    this.#busy = true
    this.#urgent &&= this.#entries.length > largestBatch
    void this.#record(this.#entries.slice(0, largestBatch), this.#updates.slice())
  }

  async #record(batch: readonly SettleEntry[], updates: readonly HealthUpdate[]): Promise<void> {
    const { store, clock, membership, loop, onTrouble } = this.#deps
    const { worker } = membership
    const drops = this.#drops
    let result: 'settled' | 'fenced' | 'trouble'
    try {
      const settlements = batch.map(({ settlement }) => settlement)
      result = await store.settle(worker, settlements, effectsOf(batch, updates))
    } catch (error) {
      if (!(error instanceof StoreTrouble)) onTrouble(error)
      result = 'trouble'
    }
    this.#busy = false
    // The worker joined again, or everything was dropped, while the store was busy: the batch is no longer here.
    if (worker !== membership.worker || drops !== this.#drops) return this.#next()
    if (result === 'trouble') {
      this.#waitingOut = true
      this.#cancelTimer ??= clock.after(this.#retryMs, () => this.#flush())
      this.#retryMs = Math.min(lastRetryMs, this.#retryMs * 2)
      return
    }
    this.#retryMs = firstRetryMs
    if (result === 'fenced') {
      this.drop()
      return membership.lose()
    }
    invariant(this.#entries[0] === batch[0] || batch.length === 0, 'a recorded batch is the front of the queue')
    this.#entries = this.#entries.slice(batch.length)
    this.#updates = this.#updates.slice(updates.length)
    for (const entry of batch) entry.onRecorded()
    for (const update of updates) update.onRecorded()
    loop.wake()
    this.#next()
  }

  #next(): void {
    if (this.#isEmpty) this.#resolveEmpty()
    else if (this.#awaitingEmpty.length > 0) this.#flush()
    else this.#plan()
  }

  #resolveEmpty(): void {
    const awaiting = this.#awaitingEmpty
    this.#awaitingEmpty = []
    for (const resolve of awaiting) resolve()
  }
}

interface SettleQueueDeps {
  readonly store: Pick<Store, 'settle'>
  readonly clock: Clock
  readonly membership: Pick<Membership, 'worker' | 'lose'>
  readonly loop: Pick<Loop, 'wake'>
  onTrouble(error: unknown): void
}

function effectsOf(batch: readonly SettleEntry[], updates: readonly HealthUpdate[]): LaneEffects {
  const holds = new Map<number, number>()
  const disabled = new Map<number, LaneEffects['disable'][number]>()
  const healths = new Map<number, string | null>()
  const notices = updates.flatMap((update) => update.notices)
  for (const { settlement, holdMs, disable, notice } of batch) {
    const { endpoint } = settlement
    if (holdMs !== undefined) holds.set(endpoint, Math.max(holdMs, holds.get(endpoint) ?? 0))
    if (disable !== undefined && !disabled.has(endpoint)) disabled.set(endpoint, { endpoint, reason: disable })
    if (notice !== undefined) notices.push(notice)
  }
  for (const { endpoint, health, disableAfterFailingMs: failingMs } of updates) {
    healths.set(endpoint, health)
    if (failingMs !== undefined && !disabled.has(endpoint)) {
      disabled.set(endpoint, { endpoint, reason: 'failing', failingMs })
    }
  }
  return {
    holds: [...holds].map(([endpoint, holdMs]) => ({ endpoint, holdMs })),
    disable: [...disabled.values()],
    health: [...healths].map(([endpoint, health]) => ({ endpoint, health })),
    notices,
  }
}
