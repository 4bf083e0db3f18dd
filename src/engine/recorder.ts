import type { Clock, SteadyMs } from '../domain/clock.ts'
import { managementApplication } from '../domain/endpoint.ts'
import { encodeId, firstKeyAt, type RandomText } from '../domain/ids.ts'
import type { DeadReason, LaneEffect, Verdict } from '../domain/judge.ts'
import { attemptNotice, type Notice } from '../domain/notice.ts'
import type { Outcome } from '../domain/outcome.ts'
import { skipped } from '../store/held.ts'
import type { NoticeWishes } from './notice-wishes.ts'
import type { Delivery } from './owned-lane.ts'
import type { Settler } from './settler.ts'
import { standAside } from './standing.ts'

/** Says what is to be recorded of deliveries: of attempts that ended, and of those that end without one. */
export class Recorder {
  readonly #parts: RecorderParts

  constructor(parts: RecorderParts) {
    this.#parts = parts
  }

  /** An attempt ended, and what becomes of its delivery is decided. */
  attempted(delivery: Delivery, outcome: Outcome, verdict: Verdict, effect: LaneEffect, now: SteadyMs): void {
    const { clock, settler, randomText, onRecorded } = this.#parts
    const { owned, row } = delivery
    const inOrder = delivery.standing !== undefined
    const id = encodeId('atmpt', firstKeyAt(clock.now()), randomText)
    owned.unsettled++
    settler.add({
      settlement: {
        endpoint: owned.endpoint.key,
        app: owned.endpoint.app,
        row,
        attempt: {
          id,
          startedAgoMs: Math.round(now - delivery.startedAt),
          durationMs: Math.round(outcome.durationMs),
          status: outcome.status,
          code: outcome.code,
          error: outcome.error ?? null,
          response: outcome.response ?? null,
        },
        verdict,
        inOrder,
      },
      holdMs: effect.holdMs,
      disable: effect.disable ? 'gone' : undefined,
      notice: this.#noticeOf(delivery, outcome, verdict, id, now),
      recorded: () => onRecorded(delivery, verdict),
    })
  }

  /** Ends a delivery that is not being sent, without an attempt; `recorded` is called once that is no longer ours to do. */
  endUntried(delivery: Delivery, reason: DeadReason, recorded?: () => void): void {
    this.#untried(delivery, { state: 'dead', reason }, recorded)
  }

  /** Ends a delivery that waits in an ordered lane, without an attempt. */
  endWaiting(delivery: Delivery, reason: DeadReason): void {
    standAside(delivery, this.#parts.clock.steady())
    this.endUntried(delivery, reason)
  }

  /** Queues a row that keeps its place in a lane that has no order any more as one that waits for its time. */
  requeue(delivery: Delivery): void {
    const { heldMs } = delivery.row
    if (heldMs === skipped) this.endUntried(delivery, 'skipped')
    else if (heldMs === Number.POSITIVE_INFINITY) this.endUntried(delivery, 'exhausted')
    else this.#untried(delivery, { state: 'waiting', waitMs: heldMs })
  }

  #untried(delivery: Delivery, verdict: Verdict, recorded?: () => void): void {
    const { settler, onRecorded } = this.#parts
    const { owned, row } = delivery
    const { key: endpoint, app } = owned.endpoint
    const inOrder = delivery.standing !== undefined
    owned.unsettled++
    settler.add({
      settlement: { endpoint, app, row, attempt: null, verdict, inOrder },
      holdMs: undefined,
      disable: undefined,
      recorded: () => {
        onRecorded(delivery, verdict)
        recorded?.()
      },
    })
  }

  /** What operators are to be told of an attempt; hardly ever anything, and then only if they want it. */
  #noticeOf(
    { owned, row, startedAt }: Delivery,
    outcome: Outcome,
    { state }: Verdict,
    id: string,
    now: SteadyMs,
  ): Notice | undefined {
    const type = attemptNotice(state, row.attempts)
    if (type === undefined || !this.#parts.wishes.wants(type) || owned.endpoint.app === managementApplication) {
      return undefined
    }
    const timestamp = new Date(this.#parts.clock.now() - Math.round(now - startedAt)).toISOString()
    const lastAttempt = { id, responseStatusCode: outcome.status, timestamp }
    return { type, endpoint: owned.endpoint.key, message: row.message, data: { lastAttempt } }
  }
}

export interface RecorderParts {
  readonly clock: Clock
  readonly randomText: RandomText
  readonly settler: Settler
  readonly wishes: Pick<NoticeWishes, 'wants'>
  /** What was to be recorded is durable, or no longer ours. */
  onRecorded(delivery: Delivery, verdict: Verdict): void
}
