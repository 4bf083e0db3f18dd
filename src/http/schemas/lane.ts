import { classes } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { countLimit, type LaneFacts } from '../../store/replaying.ts'

/** A lane as callers see it: what is stored of it. What is in flight only its owner knows. */
export function toLaneOut(endpoint: Endpoint, lane: LaneFacts) {
  const { now, owner, waiting } = lane
  const total = waiting.reduce((sum, count) => sum + count, 0)
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
    workersAlive: lane.workersAlive,
    waiting: {
      fresh: waiting[classes[0] as 0],
      timed: waiting[classes[1] as 1],
      replay: waiting[classes[2] as 2],
      total,
      /** Each is counted up to a limit, so that asking costs little however much waits. */
      isExact: waiting.every((count) => count < countLimit),
    },
    dueAt: instantOf(lane.dueAt),
    heldUntil: future(lane.holdUntil, now),
    rateLimitedUntil: owner === null ? future(lane.notBefore, now) : null,
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

export function instantOf(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}

function future(at: number, now: number): string | null {
  return at > now ? new Date(at).toISOString() : null
}
