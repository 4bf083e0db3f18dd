import { Type } from 'typebox'
import type { Blocker } from '../../domain/blocker.ts'
import type { Message } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { decodeKey } from '../../domain/ids.ts'
import { describeAll, wideBlockers, worstFirst } from '../../domain/why-waiting.ts'
import { countLimit } from '../../store/lanes.ts'
import { view } from '../access.ts'
import type { ExplainedDelivery, ExplainedEndpoint, KnownLane } from '../explainer.ts'
import {
  endpointId,
  flag,
  Instant,
  instant,
  iso,
  isoOrNull,
  listOf,
  msgId,
  nullable,
  optional,
  text,
  uidOut,
  url,
  whole,
} from '../fields.ts'
import { PageQuery, walk } from '../page.ts'
import { type Out, route } from '../route.ts'
import { MessageAttemptOut, toAttemptOut } from './attempt-schema.ts'

/** Counts of waiting deliveries by class. */
export const Waiting = Type.Object({
  fresh: Type.Integer(),
  timed: whole('Retries, and messages published for later'),
  replay: Type.Integer(),
  total: Type.Integer(),
  isExact: flag('Each is counted up to a limit, so that asking costs little'),
})

/** Counts of waiting deliveries by class, each up to a limit, so that a long queue costs no more. */
export function toWaitingOut({ waiting }: Pick<KnownLane, 'waiting'>): Out<typeof Waiting> {
  const [fresh, timed, replay] = waiting
  const isExact = waiting.every((count) => count < countLimit)
  return { fresh, timed, replay, total: fresh + timed + replay, isExact }
}

const defaultLimit = 25

/** The page of endpoints to explain. Each endpoint costs a few reads. */
const WhyQuery = Type.Object({
  limit: optional(Type.Integer({ minimum: 1, maximum: 100 }), 'Largest number of items; 25 by default.'),
  iterator: PageQuery.properties.iterator,
})

/** One reason why deliveries wait. */
const BlockerOut = Type.Object({
  reason: text('By name, such as `held`, `rate_limited` or `paused`'),
  detail: text('The same as a sentence.'),
  until: nullable(instant('Time at which it ends by itself; null when unknown, or when an operator must act.')),
})

const reason = text(
  'By name, such as `held`, `rate_limited`, `waiting_for_retry` or `delivered`; of blockers, the first',
)
const detail = text('The same as a sentence.')
const nextAt = nullable(instant('Earliest time at which it moves on by itself.'))
const blockers = Type.Array(BlockerOut, { description: 'Everything that blocks it, the most decisive first.' })
const isLive = flag(
  'Whether the worker that owns the lane answered (live); otherwise the answer is from the last stored state.',
)

/** Why a message has not been delivered to an endpoint yet, or how it ended. */
export const WhyOut = Type.Object({
  msgId,
  endpointId,
  reason,
  detail,
  nextAt,
  expectedAt: nullable(instant('Estimated time of the next attempt, at the recent pace.')),
  blockers,
  endsAt: nullable(instant('Time at which it becomes a dead letter, by its expiry or its maximum age.')),
  ahead: whole('Deliveries of the endpoint in front of it'),
  isAheadExact: Type.Boolean(),
  attempts: whole('Attempts so far.'),
  lastAttempt: nullable(MessageAttemptOut),
  isLive,
  asOf: Instant,
})

/** Everything that blocks the waiting deliveries of an endpoint. */
export const EndpointWhyOut = Type.Object({
  endpointId,
  uid: uidOut,
  url,
  reason,
  detail,
  nextAt,
  emptyAt: nullable(instant('Estimated time at which the queue is empty, at the recent pace.')),
  blockers,
  waiting: Waiting,
  oldestSince: nullable(instant('Since when the oldest of the counted deliveries has been waiting.')),
  isLive,
  asOf: Instant,
})

/** The endpoints of an application that have waiting deliveries, the worst of the page first. */
export const ApplicationWhyOut = Type.Object({
  appId: Type.String(),
  detail: text('A sentence on the whole page'),
  blockers: Type.Array(BlockerOut, { description: 'Everything that blocks the whole application.' }),
  ...listOf(EndpointWhyOut).properties,
  asOf: Instant,
})

/** The status of a delivery, as callers see it. */
function toWhyOut(
  message: Message,
  endpoint: Endpoint,
  { why, lane, queued, latest }: ExplainedDelivery,
): Out<typeof WhyOut> {
  return {
    msgId: message.id,
    endpointId: endpoint.id,
    reason: why.reason,
    detail: why.detail,
    nextAt: isoOrNull(why.nextAt),
    expectedAt: isoOrNull(why.expectedAt),
    blockers: why.blockers.map(toBlockerOut),
    endsAt: isoOrNull(queued?.endsAt ?? null),
    ahead: queued?.ahead ?? 0,
    isAheadExact: (queued?.ahead ?? 0) < countLimit,
    attempts: latest?.n ?? 0,
    lastAttempt: latest === undefined ? null : toAttemptOut(latest, message, endpoint, true),
    isLive: lane.live !== null,
    asOf: iso(lane.now),
  }
}

/** The blockers of an endpoint, as callers see them. */
function toEndpointWhyOut({ endpoint, why, lane }: ExplainedEndpoint): Out<typeof EndpointWhyOut> {
  return {
    endpointId: endpoint.id,
    uid: endpoint.uid,
    url: endpoint.url,
    reason: why.reason,
    detail: why.detail,
    nextAt: isoOrNull(why.nextAt),
    emptyAt: isoOrNull(why.emptyAt),
    blockers: why.blockers.map(toBlockerOut),
    waiting: toWaitingOut(lane),
    oldestSince: isoOrNull(lane.oldestSince),
    isLive: lane.live !== null,
    asOf: iso(lane.now),
  }
}

function toBlockerOut({ reason, detail, until }: Blocker): Out<typeof BlockerOut> {
  return { reason, detail, until: isoOrNull(until) }
}

/** Explanations of why deliveries wait: of one message, of an endpoint, of an application. */
export const why = {
  schemas: { BlockerOut, WhyOut, EndpointWhyOut, ApplicationWhyOut },
  routes: [
    route({
      method: 'GET',
      path: '/app/:app/msg/:message/endpoint/:endpoint/why',
      need: view,
      id: 'v1.lane.why',
      summary: 'Explain why a message is not delivered yet',
      description:
        'Or how it ended. The worker that owns the lane is asked; the answer waits for it up to half a second.',
      answers: { 200: WhyOut },
      handle: async ({ message, endpoint }, { explainer }) =>
        toWhyOut(message, endpoint, await explainer.delivery(message, endpoint)),
    }),
    route({
      method: 'GET',
      path: '/app/:app/endpoint/:endpoint/why',
      need: view,
      id: 'v1.lane.why-endpoint',
      summary: 'Explain what the deliveries of an endpoint wait for',
      answers: { 200: EndpointWhyOut },
      handle: async ({ endpoint }, { explainer }) => toEndpointWhyOut(await explainer.endpoint(endpoint)),
    }),
    route({
      method: 'GET',
      path: '/app/:app/why',
      need: view,
      id: 'v1.lane.why-application',
      summary: 'Explain what the endpoints of an application wait for',
      description:
        'Only endpoints that something waits for, the worst of a page first. A page may be short and not `done` when many endpoints had to be looked at.',
      query: WhyQuery,
      answers: { 200: ApplicationWhyOut },
      handle: async ({ app, query: { limit = defaultLimit, iterator } }, { store, clock, explainer }) => {
        const asked = { limit, order: 'ascending', ...(iterator === undefined ? {} : { iterator }) } as const
        const { data, ...page } = await walk(clock, asked, {
          read: async (after: number | null, order, count) =>
            (await store.listEndpoints(app.key, { after, order, limit: count })).items,
          keep: async (rows: Endpoint[]) => {
            const waiting = new Set(await store.waitingAmong(rows.map(({ key }) => key)))
            return rows.filter(({ key }) => waiting.has(key)).map((row) => ({ row }))
          },
          keepsAll: false,
          positionOf: ({ key }) => key,
          write: ({ id }) => id,
          parse: (text) => decodeKey('ep', text),
        })
        const explained = worstFirst(await explainer.all(data.map(({ row }) => row)))
        const isWhole = page.done && iterator === undefined && explained.every(({ isExact }) => isExact)
        return {
          appId: app.id,
          detail: describeAll(explained, isWhole),
          blockers: wideBlockers(explained.map(({ lane }) => lane)).map(toBlockerOut),
          data: explained.map(toEndpointWhyOut),
          ...page,
          asOf: iso(explained[0]?.lane.now ?? clock.now()),
        }
      },
    }),
  ],
}
