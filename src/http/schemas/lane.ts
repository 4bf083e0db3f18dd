import { laneBlockers } from '../../domain/blocker.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { healthFacts } from '../../domain/health-facts.ts'
import { countLimit } from '../../store/replaying.ts'
import type { KnownLane } from '../explainer.ts'

/** A lane as callers see it: what is stored of it, and what its owner says. */
export function toLaneOut(endpoint: Endpoint, lane: KnownLane) {
  const { now, owner } = lane
  return {
    endpointId: endpoint.id,
    disabled: endpoint.disabled,
    disabledReason: endpoint.disabledReason,
    paused: endpoint.paused,
    owner:
      owner === null
        ? null
        : {
            worker: owner.worker,
            description: owner.description,
            leaseUntil: new Date(owner.leaseUntil).toISOString(),
          },
    ...toHealthOut(endpoint, lane),
    workersAlive: lane.workersAlive,
    waiting: toWaitingOut(lane),
    oldestSince: instantOf(lane.oldestSince),
    live: toLiveOut(lane),
    dueAt: instantOf(lane.dueAt),
    heldUntil: future(lane.holdUntil, now),
    rateLimitedUntil: owner === null ? instantOf(paceUntil(endpoint, lane)) : null,
    bucketFullAt: endpoint.throttleRate === null || owner !== null ? null : future(lane.bucketFullAt, now),
    nextTimedAt: instantOf(lane.nextTimedAt),
    limits: {
      throttleRate: endpoint.throttleRate,
      throttlePeriodSeconds: endpoint.throttlePeriodSeconds,
      burst: endpoint.burst,
      concurrency: endpoint.concurrency,
    },
    asOf: new Date(now).toISOString(),
  }
}

/** Until when nothing is sent for the sake of the pace: not while the receiver is left alone anyway. */
function paceUntil(endpoint: Endpoint, lane: KnownLane): number | null {
  const blockers = laneBlockers(endpoint, lane)
  return blockers.find(({ reason }) => reason === 'rate_limited' || reason === 'slowed')?.until ?? null
}

/** How the receiver does. */
function toHealthOut(endpoint: Endpoint, lane: KnownLane) {
  const { circuit, openUntil, manual, openings, failures, failingSince, rate } = healthFacts(endpoint, lane)
  return {
    circuit: { state: circuit, openUntil: instantOf(openUntil), manual, openings, failures },
    failingSince: instantOf(failingSince),
    slowedTo: rate,
  }
}

/** How many wait, by class. Each is counted up to a limit, so that asking costs little however much waits. */
export function toWaitingOut({ waiting }: Pick<KnownLane, 'waiting'>) {
  const [fresh, timed, replay] = waiting
  const isExact = waiting.every((count) => count < countLimit)
  return { fresh, timed, replay, total: fresh + timed + replay, isExact }
}

function toLiveOut({ live }: KnownLane) {
  if (live === null) return null
  const { at, snapshot } = live
  const { inFlight, concurrency, queued, recording, tokenMs, rate, pace, crowded, app, process, standstill } = snapshot
  return {
    inFlight,
    concurrency,
    queued: queued[0] + queued[1] + queued[2],
    recording: recording.length,
    nextTokenAt: tokenMs === null || tokenMs === 0 ? null : new Date(at + tokenMs).toISOString(),
    rate,
    pace,
    crowded,
    application: app,
    process,
    standstill,
    asOf: new Date(at).toISOString(),
  }
}

export function instantOf(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}

function future(at: number, now: number): string | null {
  return at > now ? new Date(at).toISOString() : null
}
