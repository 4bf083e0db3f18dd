import type { SteadyMs } from '../domain/clock.ts'
import { replay } from '../domain/delivery.ts'
import { invariant } from '../domain/invariant.ts'
import { inPlace, type Verdict } from '../domain/judge.ts'
import { isOrdered, type OrderedLane } from '../domain/lane.ts'
import type { Entry } from '../domain/queue.ts'
import type { Bucket } from '../domain/rate.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { skipped } from '../store/delivering.ts'
import type { PendingRow } from '../store/store.ts'
import type { WatchedAttempt } from './attempt-watch.ts'
import type { OwnedLane } from './owned-lane.ts'

/**
 * One row on its way through this worker, and the state of its attempt. Nothing of one attempt is left in the next. The token
 * that an attempt reserved is spent when its request leaves, and restored otherwise.
 */
export class Delivery {
  readonly owned: OwnedLane
  /** Its state in an ordered lane; undefined in any other. */
  readonly ordered: OrderedState | undefined
  #row: PendingRow
  #bornAt: SteadyMs
  #expiresAt: SteadyMs
  #bucket: Bucket | undefined
  #left = false
  #startedAt: SteadyMs = 0
  #era = 0
  #abort: (() => void) | undefined
  #erased: 'erased' | 'perhaps erased' | undefined
  #watched: WatchedAttempt | undefined

  /** A row from now on. With a scheduler, the delivery takes its place in the ordered lane. */
  constructor(owned: OwnedLane, row: PendingRow, now: SteadyMs, scheduler?: Scheduler<Delivery>) {
    this.owned = owned
    this.#row = row
    this.#bornAt = now - row.ageMs
    this.#expiresAt = expiryOf(row, now)
    this.ordered = scheduler && new OrderedState(this, scheduler, now)
  }

  get row(): PendingRow {
    return this.#row
  }

  /** When it was first due, on the steady clock. */
  get bornAt(): SteadyMs {
    return this.#bornAt
  }

  /** When its message expires, on the steady clock. */
  get expiresAt(): SteadyMs {
    return this.#expiresAt
  }

  /** When its attempt started; 0 before that. */
  get startedAt(): SteadyMs {
    return this.#startedAt
  }

  /** The era of the receiver's health in which the attempt started. */
  get era(): number {
    return this.#era
  }

  /** Its message was erased while the attempt was under way, or may have been: the answer of the receiver is not recorded. */
  get erased(): 'erased' | 'perhaps erased' | undefined {
    return this.#erased
  }

  /** Its attempt, when that is watched. */
  get watched(): WatchedAttempt | undefined {
    return this.#watched
  }

  /** How late its attempt started. A retry that kept its place in an ordered lane was due later than its row says. */
  get lateMs(): number | undefined {
    const { ageMs, lateMs, attempts } = this.#row
    if (lateMs === undefined || (this.ordered !== undefined && attempts > 0)) return undefined
    return Math.max(0, this.#startedAt - (this.#bornAt + ageMs - lateMs))
  }

  /** How long its lane could send and waited for a slot of this worker, of the time since it was first due. */
  get heldUpMs(): number {
    const { crowdedSince } = this.owned
    return crowdedSince === undefined ? 0 : Math.max(0, this.#startedAt - Math.max(crowdedSince, this.#bornAt))
  }

  /** A verdict as it holds for this delivery, which may keep its place in an ordered lane. */
  inPlace(verdict: Verdict): Verdict {
    return this.ordered?.verdictInPlace(verdict) ?? verdict
  }

  /** When it is looked at next: at the end of its wait, or when its time is up before that. */
  startsAt(waitMs: number, now: SteadyMs): SteadyMs {
    return Math.min(now + waitMs, this.#expiresAt, this.#bornAt + this.owned.policy.maxAgeMs + 1)
  }

  /** The scheduler gave it a slot, and a token of the bucket if there is one. */
  begin(bucket: Bucket | undefined): void {
    this.#bucket = bucket
    this.#left = false
    this.#startedAt = 0
    this.#abort = undefined
    this.#watched = undefined
    this.ordered?.begin()
  }

  /** The attempt starts with a body that was read after every erasure so far. */
  start(now: SteadyMs): void {
    this.#startedAt = now
    this.#era = this.owned.health.era
    this.#erased = undefined
  }

  watchBy(watched: WatchedAttempt | undefined): void {
    this.#watched = watched
  }

  abortBy(abort: () => void): void {
    this.#abort = abort
  }

  /** The request leaves, which spends the token. */
  leave(now: SteadyMs): void {
    invariant(!this.#left, 'the request of an attempt leaves once')
    this.#left = true
    this.#bucket?.spend(now)
  }

  /** The attempt is over: a token that was not spent is free again. */
  restoreToken(): void {
    if (!this.#left) this.#bucket?.restore()
  }

  abort(): void {
    this.#abort?.()
  }

  /** The message was erased, or may have been: the answer to the attempt under way may echo it. */
  forgetAnswer(why: 'erased' | 'perhaps erased'): void {
    if (why === 'erased' || this.#erased === undefined) this.#erased = why
  }

  /** The store has its row in another state. */
  reread(row: PendingRow, now: SteadyMs): void {
    this.#row = row
    this.#bornAt = now - row.ageMs
    this.#expiresAt = expiryOf(row, now)
  }

  /** The store has recorded one more attempt, after which it waits in its place. */
  attempted(retryInMs: number): void {
    this.#row = { ...this.#row, attempts: this.#row.attempts + 1, retryInMs }
  }
}

/**
 * The state of a delivery in an ordered lane. The next delivery of its key starts only when this one is off the wire and its
 * verdict is recorded: after a crash in between, this one would come back behind deliveries that were sent after it.
 */
export class OrderedState {
  readonly #delivery: Delivery
  readonly #entry: Entry<Delivery>
  /** The recorded verdict, until the delivery moves on by it. */
  #verdict: Verdict | undefined
  /** When the verdict was recorded. Waits count from then, as in the store. */
  #recordedAt: SteadyMs = 0
  /** No attempt of it is on the wire. */
  #slotFree = true
  #skipped = false
  #ending = false

  constructor(delivery: Delivery, scheduler: Scheduler<Delivery>, now: SteadyMs) {
    const { owned, row } = delivery
    const { lane } = owned
    invariant(isOrdered(lane), 'a delivery takes a place in an ordered lane alone')
    this.#delivery = delivery
    this.#entry = scheduler.offerOrdered(lane, row, delivery, delivery.startsAt(row.retryInMs, now), now)
  }

  /** An operator skipped it while it was being sent. */
  get isSkipped(): boolean {
    return this.#skipped
  }

  /** It no longer waits: its end is being recorded. */
  get isEnding(): boolean {
    return this.#ending
  }

  /** A verdict as it holds here: a delivery that is tried again keeps its place. */
  verdictInPlace(verdict: Verdict): Verdict {
    const { order, deadHead } = this.#delivery.owned.endpoint.flow
    // A replay has lost its place, so it blocks nothing. A delivery without a key waits as in an unordered lane.
    if (this.#entry.class === replay) return inPlace(verdict, 'skip')
    return order === 'key' && this.#entry.orderKey === null ? verdict : inPlace(verdict, deadHead)
  }

  /** Takes over the store's state of the row. Answers whether the delivery waits, so that the state is known to be true. */
  follow(row: PendingRow, now: SteadyMs): boolean {
    const entry = this.#entry
    if (this.#ending) return false
    if (entry.state === 'under way') {
      this.#skipped ||= row.retryInMs === skipped
      return false
    }
    const known = this.#delivery.row
    // The page was read before the last attempt was recorded.
    if (triesOf(row) < triesOf(known)) return false
    const isNews = row.attempts !== known.attempts
    if (isNews) this.#delivery.reread(row, now)
    if (isNews || (row.retryInMs >= 0 && now + row.retryInMs < entry.waitsUntil)) {
      this.#order?.delay(entry, this.#delivery.startsAt(row.retryInMs, now), now)
    }
    return true
  }

  begin(): void {
    this.#slotFree = false
  }

  /** The delivery is off the wire. */
  slotFreed(now: SteadyMs): void {
    this.#slotFree = true
    this.#moveOn(now)
  }

  /** The delivery's verdict is recorded. */
  recorded(verdict: Verdict, now: SteadyMs): void {
    invariant(this.#verdict === undefined, 'one verdict of a delivery is recorded at a time')
    this.#verdict = verdict
    this.#recordedAt = now
    this.#moveOn(now)
  }

  /** The waiting delivery is about to end. It keeps its place until that is recorded. */
  beginEnding(now: SteadyMs): void {
    this.#ending = true
    this.#order?.delay(this.#entry, Number.POSITIVE_INFINITY, now)
  }

  /** The attempt was given up without a result: the delivery waits in its place as before. */
  putBack(now: SteadyMs): void {
    this.#order?.putBack(this.#entry, this.#entry.waitsUntil, now)
  }

  get #order(): OrderedLane<Delivery>['order'] | undefined {
    return this.#delivery.owned.lane.order
  }

  #moveOn(now: SteadyMs): void {
    const verdict = this.#verdict
    if (verdict === undefined || !this.#slotFree) return
    this.#verdict = undefined
    if (verdict.state !== 'delayed' && verdict.state !== 'blocked') {
      this.#order?.end(this.#entry, now)
      return
    }
    const waitMs = verdict.state === 'delayed' ? verdict.waitMs : Number.POSITIVE_INFINITY
    this.#delivery.attempted(waitMs)
    this.#order?.putBack(this.#entry, this.#delivery.startsAt(waitMs, this.#recordedAt), now)
  }
}

function expiryOf({ expiresInMs }: PendingRow, now: SteadyMs): SteadyMs {
  return expiresInMs === null ? Number.POSITIVE_INFINITY : now + expiresInMs
}

function triesOf({ attempts, priorAttempts }: PendingRow): number {
  return attempts + priorAttempts
}
