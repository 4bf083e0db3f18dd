import type { SteadyMs } from '../domain/clock.ts'
import { type Class, replay } from '../domain/delivery.ts'
import { type DeadReason, inPlace, type Verdict } from '../domain/judge.ts'
import type { OrderedLane } from '../domain/lane.ts'
import { type Entry, isBefore } from '../domain/ordered-queue.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { skipped } from '../store/delivering.ts'
import type { DueRows, PendingRow } from '../store/store.ts'
import { type Delivery, newDelivery, type OrderedState, type OwnedLane } from './owned-lane.ts'

// Taking rows: an ordered lane is read from the front each time, so a page is the store's state of all rows up to its end.

/** A page of an ordered lane, and the circumstances of taking it. */
export interface OrderedPage {
  readonly owned: OwnedLane
  readonly class: Class
  readonly page: DueRows
  readonly limit: number
  /** The last row that may be taken; undefined for all. */
  readonly horizon: PendingRow | undefined
  readonly scheduler: Scheduler<Delivery>
  readonly now: SteadyMs
}

/** A waiting delivery that is to end without an attempt. */
export interface Unwanted {
  readonly delivery: Delivery
  readonly reason: DeadReason
}

/**
 * The last place up to which both the fresh and the timed rows of a lane have been read. A row behind it in one class may
 * have to go before an unread row of the other. Undefined when both were read to their end.
 */
export function horizonOf(
  pages: readonly { readonly page: DueRows; readonly limit: number }[],
): PendingRow | undefined {
  let horizon: PendingRow | undefined
  for (const { page, limit } of pages) {
    const last = page.rows.at(-1)
    if (page.rows.length < limit || last === undefined) continue
    if (horizon === undefined || isBefore(last, horizon)) horizon = last
  }
  return horizon
}

/**
 * Brings an ordered lane in line with a page that was read from its front: new rows take their places, known rows are
 * updated unless they are being sent, and rows that the store no longer has are gone. Answers the deliveries to end.
 */
export function takeOrdered(taking: OrderedPage): Unwanted[] {
  const { owned, class: itsClass, page, limit, horizon } = taking
  const { rows } = owned
  const lane = owned.lane as OrderedLane<Delivery>
  const known = new Map<number, Entry<Delivery>>()
  for (const entry of lane.order.entries()) if (entry.class === itsClass) known.set(entry.message, entry)

  const unwanted: Unwanted[] = []
  let isCut = page.rows.length >= limit
  for (const row of page.rows) {
    if (horizon && isBefore(horizon, row)) {
      isCut = true
      break
    }
    const entry = known.get(row.message)
    known.delete(row.message)
    let delivery: Delivery | undefined
    if (entry === undefined) delivery = rows.take(itsClass, row) ? admit(taking, lane, row) : undefined
    else if (!rows.wasSettledDuringRead(row.message)) delivery = update(taking, entry, row)
    const reason = delivery && endsAs(owned, row)
    if (delivery && reason) unwanted.push({ delivery, reason })
  }
  const last = page.rows.length >= limit ? page.rows.at(-1) : undefined
  for (const entry of known.values()) {
    if (entry.state !== 'waiting' || (last && isBefore(last, entry))) continue
    lane.order.end(entry, taking.now)
    rows.forget(entry.message)
  }
  rows.endPass(itsClass, !isCut)
  taking.scheduler.reconsider(lane, taking.now)
  return unwanted
}

/** The waiting deliveries of an ordered lane beyond its queue limit. They end at once, as their turn may be far off. */
export function surplusIn(owned: OwnedLane): Delivery[] {
  const { order } = owned.lane
  if (order === undefined || !owned.hasSurplus) return []
  const waiting = [...order.entries()].filter(({ state, message }) => state === 'waiting' && owned.isSurplus(message))
  return waiting.map(({ item }) => item).filter(({ ordered }) => ordered?.ending === false)
}

function admit({ owned, scheduler, now }: OrderedPage, lane: OrderedLane<Delivery>, row: PendingRow): Delivery {
  const delivery = newDelivery(owned, row, now)
  const entry = scheduler.offerOrdered(lane, row, delivery, startsAt(delivery, row.retryInMs, now), now)
  delivery.ordered = { entry, verdict: undefined, recordedAt: now, slotFree: true, skipped: false, ending: false }
  return delivery
}

/** Takes over the store's state of a known row. Answers the delivery if it waits. */
function update({ owned, now }: OrderedPage, entry: Entry<Delivery>, row: PendingRow): Delivery | undefined {
  const { ordered } = entry.item
  if (ordered === undefined || ordered.ending) return undefined
  if (entry.state === 'under way') {
    ordered.skipped ||= row.retryInMs === skipped
    return undefined
  }
  // The page was read before the last attempt was recorded.
  if (triesOf(row) < triesOf(entry.item.row)) return undefined
  if (row.attempts !== entry.item.row.attempts) {
    entry.item = { ...newDelivery(owned, row, now), ordered }
    owned.lane.order?.delay(entry, startsAt(entry.item, row.retryInMs, now), now)
  } else if (row.retryInMs >= 0 && now + row.retryInMs < entry.waitsUntil) {
    owned.lane.order?.delay(entry, startsAt(entry.item, row.retryInMs, now), now)
  }
  return entry.item
}

/** Why a waiting row is to end: an operator skips it, or it blocks a lane in which nothing blocks any more. */
function endsAs(owned: OwnedLane, { retryInMs }: PendingRow): DeadReason | undefined {
  if (retryInMs === skipped) return 'skipped'
  return retryInMs === Number.POSITIVE_INFINITY && owned.endpoint.flow.deadHead === 'skip' ? 'exhausted' : undefined
}

function triesOf({ attempts, priorAttempts }: PendingRow): number {
  return attempts + priorAttempts
}

// Sending: the next delivery of a key starts when the one before it is off the wire and its verdict is recorded.

/** The verdict in the delivery's lane: in an ordered one, a delivery that is tried again keeps its place. */
export function verdictIn({ owned, ordered }: Delivery, verdict: Verdict): Verdict {
  if (ordered === undefined) return verdict
  const { class: itsClass, orderKey } = ordered.entry
  // A replay has lost its place, so it blocks nothing. A delivery without a key waits as in an unordered lane.
  if (itsClass === replay) return inPlace(verdict, 'skip')
  if (owned.endpoint.flow.order === 'key' && orderKey === null) return verdict
  return inPlace(verdict, owned.endpoint.flow.deadHead)
}

/** The delivery is being sent. */
export function slotTaken({ ordered }: Delivery): void {
  if (ordered) ordered.slotFree = false
}

/** The delivery is off the wire. */
export function slotFreed({ owned, ordered }: Delivery, now: SteadyMs): void {
  if (ordered === undefined) return
  ordered.slotFree = true
  moveOn(owned, ordered, now)
}

/** The delivery's verdict is recorded. Before that, a crash would bring it back behind deliveries sent after it. */
export function verdictRecorded({ owned, ordered }: Delivery, verdict: Verdict, now: SteadyMs): void {
  if (ordered === undefined) return
  ordered.verdict = verdict
  ordered.recordedAt = now
  moveOn(owned, ordered, now)
}

/** A waiting delivery is about to end. It keeps its place until that is recorded. */
export function beginEnding({ owned, ordered }: Delivery, now: SteadyMs): void {
  if (ordered === undefined) return
  ordered.ending = true
  owned.lane.order?.delay(ordered.entry, Number.POSITIVE_INFINITY, now)
}

function moveOn({ lane }: OwnedLane, { entry, verdict, recordedAt, slotFree }: OrderedState, now: SteadyMs): void {
  if (verdict === undefined || !slotFree) return
  if (verdict.state !== 'delayed' && verdict.state !== 'blocked') {
    lane.order?.end(entry, now)
    return
  }
  const waitMs = verdict.state === 'delayed' ? verdict.waitMs : Number.POSITIVE_INFINITY
  entry.item = afterAttempt(entry.item, waitMs)
  lane.order?.putBack(entry, startsAt(entry.item, waitMs, recordedAt), now)
}

/** When a delivery is looked at next: at the end of its wait, or when its time is up before that. */
function startsAt({ owned, bornAt, expiresAt }: Delivery, waitMs: number, now: SteadyMs): SteadyMs {
  return Math.min(now + waitMs, expiresAt, bornAt + owned.policy.maxAgeMs + 1)
}

/** The delivery as the store has it after one more attempt. */
function afterAttempt(delivery: Delivery, retryInMs: number): Delivery {
  const { row, ordered } = delivery
  return {
    ...delivery,
    row: { ...row, attempts: row.attempts + 1, retryInMs },
    bucket: undefined,
    left: false,
    startedAt: 0,
    abort: undefined,
    ordered: ordered && { ...ordered, verdict: undefined },
  }
}
