import { Type } from 'typebox'
import {
  described,
  endpointId,
  flag,
  Instant,
  instant,
  iso,
  isoOrNull,
  MaybeInstant,
  nullable,
  text,
  whole,
} from '../../operations/fields.ts'
import type { Out } from '../../operations/route.ts'
import { type Endpoint, endpointState, healthFacts, limitSources } from '../endpoints/rules.ts'
import { EndpointOut } from '../endpoints/schemas.ts'
import { laneBlockers } from '../why/blocker.ts'
import { condition, ForecastOut, toForecastOut, toWaitingOut, Waiting } from '../why/schemas.ts'
import type { ExplainedEndpoint, KnownLane } from '../why/service.ts'

const Slots = Type.Object({
  inFlight: whole('Slots in use.'),
  limit: whole('Slots that it may use.'),
})

/** The live state of a lane, from its owner. */
const LiveLane = Type.Object(
  {
    inFlight: whole('Attempts under way'),
    concurrency: whole('Attempts that may be under way at once.'),
    queued: whole('Deliveries in memory that have not begun.'),
    recording: whole('Attempts that ended and are not recorded yet, up to 64.'),
    nextTokenAt: nullable(instant('Time at which the rate limit allows the next attempt; null for now.')),
    rate: nullable(Type.Number({ description: 'Attempts per second that the rate limit allows.' })),
    pace: nullable(Type.Number({ description: 'Attempts per second that ended recently.' })),
    crowded: nullable(
      text(
        'Which slots it waits for: `process`, all are taken; `application`, its own has all it may; `share`, the rest is left for others; `slow` or `untried`, the rest is kept for endpoints that answer within a second',
      ),
    ),
    application: described(Slots, 'Slots of the application in this worker.'),
    process: described(Slots, 'Slots of this worker.'),
    standstill: nullable(text('Reason why its worker starts no attempt: `store`, `recording` or `lease`.')),
    asOf: Instant,
  },
  { description: 'Live state from the worker that owns the lane; null when no worker owns it or answers.' },
)

/** The stored state of an endpoint's lane, and the state that its owner reports. */
export const LaneOut = Type.Object({
  endpointId,
  state: EndpointOut.properties.state,
  disabled: EndpointOut.properties.disabled,
  disabledReason: EndpointOut.properties.disabledReason,
  paused: EndpointOut.properties.paused,
  owner: nullable(
    Type.Object(
      { worker: Type.Integer(), description: text('Free text.'), leaseUntil: Instant },
      { description: 'The worker that delivers it now' },
    ),
  ),
  circuit: Type.Object(
    {
      state: Type.Enum(['closed', 'open', 'half_open']),
      openUntil: nullable(
        instant('Time of the next probe; null when the circuit is closed, or was opened by an operator.'),
      ),
      manual: flag('Whether an operator opened it; it stays open until an operator closes it.'),
      openings: whole('Times it opened since the last success.'),
      failures: whole('Failed attempts in a row, as far as they are stored'),
    },
    {
      description: 'State of the circuit; deliveries wait while it is open.',
    },
  ),
  failingSince: nullable(instant('Since when it has failed without one success (last stored).')),
  slowedTo: nullable(Type.Number({ description: 'Attempts per second while the rate returns to normal.' })),
  region: text('Region whose workers may own the lane.'),
  workersAlive: whole('Living workers of all regions.'),
  workersServing: whole('Workers alive that serve the region.'),
  condition,
  forecast: ForecastOut,
  waiting: Waiting,
  oldestSince: nullable(instant('Since when the oldest delivery has been waiting.')),
  live: nullable(LiveLane),
  dueAt: MaybeInstant,
  heldUntil: nullable(instant('The receiver sent Retry-After; deliveries are paused until then.')),
  rateLimitedUntil: MaybeInstant,
  bucketFullAt: MaybeInstant,
  nextTimedAt: MaybeInstant,
  limits: Type.Object(
    {
      throttleRate: EndpointOut.properties.throttleRate,
      throttlePeriodSeconds: EndpointOut.properties.throttlePeriodSeconds,
      burst: EndpointOut.properties.burst,
      concurrency: EndpointOut.properties.concurrency,
      rateFrom: nullable(
        Type.Enum(limitSources, { description: 'Where the rate was set; null when the endpoint has no rate.' }),
      ),
      burstFrom: nullable(
        Type.Enum(limitSources, { description: 'Where the burst was set; null for a tenth of a period.' }),
      ),
    },
    { description: 'Limits that hold: those of the endpoint, or else the defaults of its application or the server.' },
  ),
  asOf: Instant,
})

export function toLaneOut({ endpoint, lane, why }: ExplainedEndpoint): Out<typeof LaneOut> {
  const { now, owner, throttleRate, throttlePeriodSeconds, burst, rateFrom, burstFrom } = lane
  return {
    endpointId: endpoint.id,
    state: endpointState(endpoint, lane),
    disabled: endpoint.disabled,
    disabledReason: endpoint.disabledReason,
    paused: endpoint.paused,
    owner: owner && { worker: owner.worker, description: owner.description, leaseUntil: iso(owner.leaseUntil) },
    ...toHealthOut(endpoint, lane),
    region: lane.region,
    workersAlive: lane.workersAlive,
    workersServing: lane.workersServing,
    condition: why.condition,
    forecast: toForecastOut(why.forecast),
    waiting: toWaitingOut(lane.queue),
    oldestSince: isoOrNull(lane.queue.oldestSince),
    live: toLiveOut(lane),
    dueAt: isoOrNull(lane.dueAt),
    heldUntil: future(lane.holdUntil, now),
    rateLimitedUntil: owner === null ? isoOrNull(paceUntil(endpoint, lane)) : null,
    bucketFullAt: throttleRate === null || owner !== null ? null : future(lane.bucketFullAt, now),
    nextTimedAt: isoOrNull(lane.nextTimedAt),
    limits: { throttleRate, throttlePeriodSeconds, burst, concurrency: endpoint.concurrency, rateFrom, burstFrom },
    asOf: iso(now),
  }
}

/** Until when the rate limit or the slowed rate blocks; null while something else blocks. */
function paceUntil(endpoint: Endpoint, lane: KnownLane): number | null {
  const blockers = laneBlockers(endpoint, lane)
  return blockers.find(({ reason }) => reason === 'rate_limited' || reason === 'slowed')?.until ?? null
}

function toHealthOut(endpoint: Endpoint, lane: KnownLane) {
  const { throttleRate, throttlePeriodSeconds, burst } = lane
  const limited = { ...endpoint, throttleRate, throttlePeriodSeconds, burst }
  const { circuit, openUntil, manual, openings, failures, failingSince, rate } = healthFacts(limited, lane)
  return {
    circuit: { state: circuit, openUntil: isoOrNull(openUntil), manual, openings, failures },
    failingSince: isoOrNull(failingSince),
    slowedTo: rate,
  }
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
    nextTokenAt: tokenMs === null || tokenMs === 0 ? null : iso(at + tokenMs),
    rate,
    pace,
    crowded,
    application: app,
    process,
    standstill,
    asOf: iso(at),
  }
}

function future(at: number, now: number): string | null {
  return at > now ? iso(at) : null
}
