import type { SteadyMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'
import type { DeadReason } from '../domain/judge.ts'
import type { OrderedLane } from '../domain/lane.ts'
import { type Entry, isBefore } from '../domain/ordered-queue.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { skipped } from '../store/delivering.ts'
import type { DueRows, PendingRow } from '../store/store.ts'
import { Delivery } from './delivery.ts'
import type { OwnedLane } from './owned-lane.ts'

/**
 * A page of an ordered lane, and the circumstances of taking it. The lane is read from the front each time, so a page is the
 * store's state of all rows up to its end.
 */
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
  const { owned, class: itsClass, page, limit, horizon, scheduler, now } = taking
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
    if (entry === undefined) delivery = rows.take(itsClass, row) ? new Delivery(owned, row, now, scheduler) : undefined
    else if (!rows.wasSettledDuringRead(row.message) && entry.item.ordered?.follow(row, now)) delivery = entry.item
    const reason = delivery && endsAs(owned, row)
    if (delivery && reason) unwanted.push({ delivery, reason })
  }
  const last = page.rows.length >= limit ? page.rows.at(-1) : undefined
  for (const entry of known.values()) {
    if (entry.state !== 'waiting' || (last && isBefore(last, entry))) continue
    lane.order.end(entry, now)
    rows.forget(entry.message)
  }
  rows.endPass(itsClass, !isCut)
  scheduler.reconsider(lane, now)
  return unwanted
}

/** The waiting deliveries of an ordered lane beyond its queue limit. They end at once, as their turn may be far off. */
export function surplusIn(owned: OwnedLane): Delivery[] {
  const { order } = owned.lane
  if (order === undefined || !owned.hasSurplus) return []
  const waiting = [...order.entries()].filter(({ state, message }) => state === 'waiting' && owned.isSurplus(message))
  return waiting.map(({ item }) => item).filter(({ ordered }) => ordered?.isEnding === false)
}

/** Why a waiting row is to end: an operator skips it, or it blocks a lane in which nothing blocks any more. */
function endsAs(owned: OwnedLane, { retryInMs }: PendingRow): DeadReason | undefined {
  if (retryInMs === skipped) return 'skipped'
  return retryInMs === Number.POSITIVE_INFINITY && owned.endpoint.flow.deadHead === 'skip' ? 'exhausted' : undefined
}
