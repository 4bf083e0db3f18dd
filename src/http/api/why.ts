import { Type } from 'typebox'
import type { Blocker } from '../../domain/blocker.ts'
import type { Message } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { decodeKey } from '../../domain/ids.ts'
import { describeAll, wideBlockers, worstFirst } from '../../domain/why-waiting.ts'
import { countLimit } from '../../store/lanes.ts'
import { view } from '../access.ts'
import { Instant, listOf, MaybeInstant } from '../answers/field.ts'
import type { ExplainedDelivery, ExplainedEndpoint } from '../explainer.ts'
import { iso, isoOrNull } from '../fields.ts'
import { walk } from '../page.ts'
import { type Out, route } from '../route.ts'
import { nullable } from '../schemas/field.ts'
import { MessageAttemptOut, toAttemptOut } from './attempt-schema.ts'
import { toWaitingOut, Waiting } from './waiting.ts'

const defaultLimit = 25

/** How much of an application is explained at once. Each endpoint costs a few reads. */
const WhyQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  iterator: Type.Optional(Type.String({ maxLength: 264 })),
})

/** One thing that keeps something from moving on. */
const BlockerOut = Type.Object({
  reason: Type.String({ description: 'By name, such as `held`, `rate_limited` or `paused`' }),
  detail: Type.String({ description: 'The same as a sentence' }),
  until: nullable(
    Type.String({
      format: 'date-time',
      description: 'When it ends by itself; nothing moves before. Null when that is not known or takes somebody',
    }),
  ),
})

const reason = Type.String({
  description: 'By name, such as `held`, `rate_limited`, `waiting_for_retry` or `delivered`; of blockers, the first',
})
const detail = Type.String({ description: 'The same as a sentence' })
const nextAt = nullable(
  Type.String({ format: 'date-time', description: 'When it will next move by itself, and not before' }),
)
const blockers = Type.Array(BlockerOut, { description: 'All that keeps it from moving on, the most decisive first' })
const isLive = Type.Boolean({
  description: 'Whether the worker that has the lane was asked and answered; else it is told from what is stored',
})

/** Why a message has not been delivered to an endpoint yet, or what became of it. */
export const WhyOut = Type.Object({
  msgId: Type.String(),
  endpointId: Type.String(),
  reason,
  detail,
  nextAt,
  expectedAt: nullable(
    Type.String({ format: 'date-time', description: 'About when its turn comes, at the pace of late' }),
  ),
  blockers,
  endsAt: nullable(
    Type.String({
      format: 'date-time',
      description: 'When its time is up, its message’s or what it may wait: it is a dead letter then',
    }),
  ),
  ahead: Type.Integer({ description: 'Deliveries of the endpoint in front of it' }),
  isAheadExact: Type.Boolean(),
  attempts: Type.Integer(),
  lastAttempt: nullable(MessageAttemptOut),
  isLive,
  asOf: Instant,
})

/** What stands in the way of all that waits for an endpoint. */
export const EndpointWhyOut = Type.Object({
  endpointId: Type.String(),
  uid: nullable(Type.String()),
  url: Type.String(),
  reason,
  detail,
  nextAt,
  emptyAt: nullable(
    Type.String({ format: 'date-time', description: 'About when all of it will have been sent, at the pace of late' }),
  ),
  blockers,
  waiting: Waiting,
  oldestSince: MaybeInstant,
  isLive,
  asOf: Instant,
})

/** What an application's endpoints wait for: those of them that something waits for, the worst of the page first. */
export const ApplicationWhyOut = Type.Object({
  appId: Type.String(),
  detail: Type.String({ description: 'A sentence on the whole page' }),
  blockers: Type.Array(BlockerOut, { description: 'What keeps the whole application from moving on' }),
  ...listOf(EndpointWhyOut).properties,
  asOf: Instant,
})

/** Where a delivery stands, as callers see it. */
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

/** What stands in the way of an endpoint, as callers see it. */
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

/** Why something is not delivered yet: one delivery, an endpoint, a whole application. */
export const why = {
  schemas: { BlockerOut, WhyOut, EndpointWhyOut, ApplicationWhyOut },
  routes: [
    route({
      method: 'GET',
      path: '/app/:app/msg/:message/endpoint/:endpoint/why',
      need: view,
      id: 'v1.lane.why',
      summary: 'Tell why a message is not delivered yet',
      description: 'Or what became of it. The worker that has the lane is asked, and waited for half a second at most.',
      answers: { 200: WhyOut },
      handle: async ({ message, endpoint }, { explainer }) =>
        toWhyOut(message, endpoint, await explainer.delivery(message, endpoint)),
    }),
    route({
      method: 'GET',
      path: '/app/:app/endpoint/:endpoint/why',
      need: view,
      id: 'v1.lane.why-endpoint',
      summary: 'Tell what stands in the way of all that waits for an endpoint',
      answers: { 200: EndpointWhyOut },
      handle: async ({ endpoint }, { explainer }) => toEndpointWhyOut(await explainer.endpoint(endpoint)),
    }),
    route({
      method: 'GET',
      path: '/app/:app/why',
      need: view,
      id: 'v1.lane.why-application',
      summary: "Tell what an application's endpoints wait for",
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
