import type { SteadyMs } from '../domain/clock.ts'
import { replay } from '../domain/delivery.ts'
import { inPlace, type Verdict } from '../domain/judge.ts'
import type { Delivery, OwnedLane, Standing } from './owned-lane.ts'

/** What a verdict becomes in the delivery's lane. */
export function verdictIn({ owned, standing }: Delivery, verdict: Verdict): Verdict {
  if (standing === undefined) return verdict
  const { class: itsClass, orderKey } = standing.entry
  // A replay has lost its place, and blocks nobody; what has no key in a keyed lane waits as in any other.
  if (itsClass === replay) return inPlace(verdict, 'skip')
  if (owned.endpoint.flow.order === 'key' && orderKey === null) return verdict
  return inPlace(verdict, owned.endpoint.flow.deadHead)
}

/** The delivery is being sent. */
export function slotTaken({ standing }: Delivery): void {
  if (standing) standing.slotFree = false
}

/** The delivery is no longer on the wire. What is behind it goes on when it is recorded as well. */
export function slotFreed({ owned, standing }: Delivery, now: SteadyMs): void {
  if (standing === undefined) return
  standing.slotFree = true
  moveOn(owned, standing, now)
}

/** The delivery's verdict is recorded. Before that, a crash would bring it back behind what was sent after it. */
export function verdictRecorded({ owned, standing }: Delivery, verdict: Verdict, now: SteadyMs): void {
  if (standing === undefined) return
  standing.verdict = verdict
  standing.recordedAt = now
  moveOn(owned, standing, now)
}

/** The attempt was given up unrecorded: it goes back to its place as it was. */
export function standAgain({ owned, standing }: Delivery, now: SteadyMs): void {
  if (standing) owned.lane.order?.putBack(standing.entry, standing.entry.heldUntil, now)
}

/** A delivery that waits is about to be ended. It keeps its place until that is recorded. */
export function standAside({ owned, standing }: Delivery, now: SteadyMs): void {
  if (standing === undefined) return
  standing.ending = true
  owned.lane.order?.hold(standing.entry, Number.POSITIVE_INFINITY, now)
}

/** When a delivery is to be looked at: at the end of its wait, or when its time is up before that. */
export function turnAt({ owned, bornAt, expiresAt }: Delivery, heldMs: number, now: SteadyMs): SteadyMs {
  return Math.min(now + heldMs, expiresAt, bornAt + owned.policy.maxAgeMs + 1)
}

function moveOn({ lane }: OwnedLane, { entry, verdict, recordedAt, slotFree }: Standing, now: SteadyMs): void {
  if (verdict === undefined || !slotFree) return
  if (verdict.state !== 'held' && verdict.state !== 'blocked') {
    lane.order?.end(entry, now)
    return
  }
  const waitMs = verdict.state === 'held' ? verdict.waitMs : Number.POSITIVE_INFINITY
  entry.item = triedOnceMore(entry.item, waitMs)
  lane.order?.putBack(entry, turnAt(entry.item, waitMs, recordedAt), now)
}

/** The delivery as it is in the store after one more attempt. */
function triedOnceMore(delivery: Delivery, heldMs: number): Delivery {
  const { row, standing } = delivery
  return {
    ...delivery,
    row: { ...row, attempts: row.attempts + 1, heldMs },
    bucket: undefined,
    left: false,
    startedAt: 0,
    abort: undefined,
    standing: standing && { ...standing, verdict: undefined },
  }
}
