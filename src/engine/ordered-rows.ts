import type { SteadyMs } from '../domain/clock.ts'
import { type Class, replay, timed } from '../domain/delivery.ts'
import type { DeadReason } from '../domain/judge.ts'
import type { OrderedLane } from '../domain/lane.ts'
import { type Entry, isBefore, type OrderedLine } from '../domain/order.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { skipped } from '../store/held.ts'
import type { DueRows, PendingRow } from '../store/store.ts'
import { type Delivery, newDelivery, type OwnedLane } from './owned-lane.ts'
import { turnAt } from './standing.ts'

/** Rows of a lane with many files that are kept in memory: while some files stand still, others are looked for this far. */
const windowRows = 2048

/** Whether enough rows are in memory to keep an ordered lane busy, or as many as may be. */
export function hasEnough(
  order: OrderedLine<Delivery>,
  itsClass: Class,
  { low, page }: { low: number; page: number },
): boolean {
  const known = order.known(itsClass)
  if (known >= windowRows - page) return true
  if (itsClass === replay) return known >= low
  return order.ordering === 'fifo' ? known >= low : order.startable >= low
}

/**
 * The last place up to which both the fresh and the timed rows of a lane have been read: what lies behind it in one of the
 * two may have to go before what comes next in the other. Undefined when that is everything.
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

/** What taking the rows of an ordered lane needs. */
export interface Taking {
  readonly owned: OwnedLane
  readonly class: Class
  readonly page: DueRows
  readonly limit: number
  readonly horizon: PendingRow | undefined
  readonly scheduler: Scheduler<Delivery>
  readonly now: SteadyMs
  /** Ends a delivery that waits, without an attempt. */
  end(delivery: Delivery, reason: DeadReason): void
}

/**
 * Takes rows that were read from the head of an ordered lane: the store's word on all that stands there. What is new takes
 * its place, what is known already is as the store says unless it is being sent, and what is not there any more is gone.
 */
export function takeOrdered(taking: Taking): void {
  const { owned, class: itsClass, page, limit, horizon } = taking
  const lane = owned.lane as OrderedLane<Delivery>
  const cursor = owned.cursors[itsClass]
  const known = new Map<number, Entry<Delivery>>()
  for (const entry of lane.order.entries()) if (entry.class === itsClass) known.set(entry.message, entry)

  let isCut = page.rows.length >= limit
  for (const row of page.rows) {
    if (horizon && isBefore(horizon, row)) {
      isCut = true
      break
    }
    const entry = known.get(row.message)
    if (entry !== undefined) {
      known.delete(row.message)
      if (!owned.settledMeanwhile.includes(row.message)) compare(taking, entry, row)
    } else if (!owned.held.has(row.message)) admit(taking, lane, row)
    // Settled meanwhile, a timed row may also be the one that it became: only a later read can tell.
    else if (itsClass === timed && owned.settledMeanwhile.includes(row.message)) cursor.stale = true
  }
  const last = page.rows.length >= limit ? page.rows.at(-1) : undefined
  for (const entry of known.values()) {
    if (entry.state !== 'waiting' || (last && isBefore(last, entry))) continue
    lane.order.end(entry, taking.now)
    owned.held.delete(entry.message)
  }
  cursor.after = null
  cursor.complete = !cursor.stale && !isCut
  taking.scheduler.reconsider(lane, taking.now)
}

/** What is too many for the endpoint and waits in an ordered lane, where its turn may be long in coming. */
export function doomedInLine({ doomed, lane }: OwnedLane): Delivery[] {
  if (doomed === null || lane.order === undefined) return []
  const waiting = [...lane.order.entries()].filter(({ state, message }) => state === 'waiting' && doomed.has(message))
  return waiting.map(({ item }) => item).filter(({ standing }) => standing?.ending === false)
}

function admit(taking: Taking, lane: OrderedLane<Delivery>, row: PendingRow): void {
  const { owned, scheduler, now } = taking
  const delivery = newDelivery(owned, row, now)
  owned.held.add(row.message)
  const entry = scheduler.offerOrdered(lane, row, delivery, turnAt(delivery, row.heldMs, now), now)
  delivery.standing = { entry, verdict: undefined, recordedAt: now, slotFree: true, skipped: false, ending: false }
  obey(taking, delivery, row)
}

/** Takes over what somebody else changed of a row that is known. */
function compare(taking: Taking, entry: Entry<Delivery>, row: PendingRow): void {
  const { owned, now } = taking
  const { standing } = entry.item
  if (standing === undefined || standing.ending) return
  if (entry.state === 'under way') {
    standing.skipped ||= row.heldMs === skipped
    return
  }
  // Read before its last attempt was recorded.
  if (triesOf(row) < triesOf(entry.item.row)) return
  if (row.attempts !== entry.item.row.attempts) {
    entry.item = { ...newDelivery(owned, row, now), standing }
    owned.lane.order?.hold(entry, turnAt(entry.item, row.heldMs, now), now)
  } else if (row.heldMs >= 0 && now + row.heldMs < entry.heldUntil) {
    owned.lane.order?.hold(entry, turnAt(entry.item, row.heldMs, now), now)
  }
  obey(taking, entry.item, row)
}

/** Ends what somebody wants out of the way, and what blocks a lane in which nothing is to block any more. */
function obey({ owned, end }: Taking, delivery: Delivery, { heldMs }: PendingRow): void {
  if (heldMs === skipped) end(delivery, 'skipped')
  else if (heldMs === Number.POSITIVE_INFINITY && owned.endpoint.flow.deadHead === 'skip') end(delivery, 'exhausted')
}

function triesOf({ attempts, priorAttempts }: PendingRow): number {
  return attempts + priorAttempts
}
