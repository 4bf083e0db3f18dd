import { type Static, Type } from 'typebox'
import { AppError } from '../../domain/app-error.ts'
import { manage, view } from '../../operations/access.ts'
import {
  closed,
  described,
  endpointId,
  flag,
  Instant,
  instant,
  iso,
  isoOrNull,
  MaybeInstant,
  maybe,
  nullable,
  shortText,
  text,
  whole,
} from '../../operations/fields.ts'
import { lookUp } from '../../operations/lookup.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { FrontCommand } from '../../store/lanes.ts'
import { type Endpoint, limitSources } from '../endpoints/rules.ts'
import { EndpointOut } from '../endpoints/schemas.ts'
import { endpointState, healthFacts } from '../endpoints/state.ts'
import { laneBlockers } from '../why/blocker.ts'
import { toWaitingOut, Waiting, why } from '../why/routes.ts'
import type { KnownLane } from '../why/service.ts'

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
  waiting: Waiting,
  oldestSince: nullable(instant('Since when the oldest of the counted deliveries has been waiting.')),
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

/** The delivery of an ordered lane that a command is for; the first in the queue by default. */
const HeadIn = Type.Object(
  {
    messageId: maybe(
      shortText(256),
      'Delivery that is meant; the first in the queue by default. Required where each key has its own queue.',
    ),
  },
  closed,
)

const HeadOut = Type.Object({
  endpointId,
  messageId: nullable(text('Null when the message no longer exists.')),
  order: Type.Enum(['retry', 'skip'], { description: 'The command.' }),
})

export function toLaneOut(endpoint: Endpoint, lane: KnownLane): Out<typeof LaneOut> {
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
    waiting: toWaitingOut(lane),
    oldestSince: isoOrNull(lane.oldestSince),
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

/** Commands the worker that owns the lane to retry or skip the delivery that blocks the others. */
function headRoute(command: FrontCommand, summary: string, description: string) {
  return route(`POST /app/:app/endpoint/:endpoint/lane/head/${command}`, manage, {
    id: `v1.lane.${command}-head`,
    summary,
    description,
    body: HeadIn,
    answers: { 202: HeadOut },
    handle: async ({ app, endpoint, body }, { store }) => {
      assertOrdered(endpoint, body)
      const { messageId: ref = null } = body
      const find = (name: string) => store.findMessage(app.key, name)
      const named = ref === null ? null : await lookUp('message', ref, find)
      const answer = await store.commandFront(endpoint.key, named?.key ?? null, command)
      if (answer.state === 'none') throw new AppError('not_found', 'No such delivery waits in this lane.')
      if (answer.state === 'busy') {
        const message = 'The delivery does not wait for a retry: a worker sends it, or it waits for its turn.'
        throw new AppError('conflict', message)
      }
      const [message] = named ? [named] : await store.loadMessages([answer.message])
      return { endpointId: endpoint.id, messageId: message?.id ?? null, order: command }
    },
  })
}

function assertOrdered({ flow }: Endpoint, { messageId }: Static<typeof HeadIn>): void {
  if (flow.order === 'none') throw new AppError('conflict', 'The endpoint is not ordered: no delivery blocks others.')
  if (flow.order === 'fifo' || messageId != null) return
  refuseIf([{ at: ['body', 'messageId'], message: 'is required where each key has its own queue', type: 'required' }])
}

export const lanes = {
  tag: 'Lane',
  description: "The state of an endpoint's queue, and why a message has not been delivered yet.",
  schemas: { LaneOut, HeadIn, HeadOut, ...why.schemas },
  routes: [
    route('GET /app/:app/endpoint/:endpoint/lane', view, {
      id: 'v1.lane.get',
      summary: "Get the state of an endpoint's lane",
      answers: { 200: LaneOut },
      handle: async ({ endpoint }, { explainer }) => toLaneOut(endpoint, await explainer.lane(endpoint)),
    }),
    headRoute(
      'retry',
      'Retry the delivery that blocks the others',
      'In an ordered lane: at once, and with all its attempts. Without `messageId`, the first in the queue. The worker that owns the lane carries it out.',
    ),
    headRoute(
      'skip',
      'Skip the delivery that blocks the others',
      'It becomes a dead letter, which can be replayed. Without `messageId`, the first in the queue. The worker that owns the lane carries it out.',
    ),
    ...why.routes,
  ],
} satisfies Noun
