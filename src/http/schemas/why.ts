import { type Static, Type } from 'typebox'
import type { Blocker } from '../../domain/blocker.ts'
import type { Message } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { countLimit } from '../../store/replaying.ts'
import type { ExplainedDelivery, ExplainedEndpoint } from '../explainer.ts'
import { toAttemptOut } from './attempt.ts'
import { instantOf, toWaitingOut } from './lane.ts'

/** How much of an application is explained at once. Each endpoint costs a few reads. */
export const WhyQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  iterator: Type.Optional(Type.String({ maxLength: 264 })),
})
export type WhyQuery = Static<typeof WhyQuery>

/** Where a delivery stands, as callers see it. */
export function toWhyOut(message: Message, endpoint: Endpoint, { why, lane, queued, latest }: ExplainedDelivery) {
  return {
    msgId: message.id,
    endpointId: endpoint.id,
    reason: why.reason,
    detail: why.detail,
    nextAt: instantOf(why.nextAt),
    expectedAt: instantOf(why.expectedAt),
    blockers: why.blockers.map(toBlockerOut),
    endsAt: instantOf(queued?.endsAt ?? null),
    ahead: queued?.ahead ?? 0,
    isAheadExact: (queued?.ahead ?? 0) < countLimit,
    attempts: latest?.n ?? 0,
    lastAttempt: latest === undefined ? null : toAttemptOut(latest, message, endpoint, true),
    isLive: lane.live !== null,
    asOf: new Date(lane.now).toISOString(),
  }
}

/** What stands in the way of an endpoint, as callers see it. */
export function toEndpointWhyOut({ endpoint, why, lane }: ExplainedEndpoint) {
  return {
    endpointId: endpoint.id,
    uid: endpoint.uid,
    url: endpoint.url,
    reason: why.reason,
    detail: why.detail,
    nextAt: instantOf(why.nextAt),
    emptyAt: instantOf(why.emptyAt),
    blockers: why.blockers.map(toBlockerOut),
    waiting: toWaitingOut(lane),
    oldestSince: instantOf(lane.oldestSince),
    isLive: lane.live !== null,
    asOf: new Date(lane.now).toISOString(),
  }
}

export function toBlockerOut({ reason, detail, until }: Blocker) {
  return { reason, detail, until: instantOf(until) }
}
