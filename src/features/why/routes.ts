import { Type } from 'typebox'
import type { EpochMs } from '../../domain/clock.ts'
import type { Message } from '../../domain/delivery.ts'
import { read, view } from '../../operations/access.ts'
import {
  appId,
  endpointId,
  flag,
  Instant,
  instant,
  iso,
  isoOrNull,
  msgId,
  nullable,
  optional,
  text,
  uidOut,
  url,
  whole,
} from '../../operations/fields.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { MessageAttemptOut, toAttemptOut } from '../attempts/schemas.ts'
import { certificateWarning } from '../credentials/rules.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { worstKept } from '../search/survey-service.ts'
import type { Blocker, BlockerReason } from './blocker.ts'
import { describeAll, type QueueSort, queueSorts, type WhyReason, wideBlockers } from './rules.ts'
import { condition, ForecastOut, toForecastOut, toTotalsOut, toWaitingOut, Waiting, WaitingTotals } from './schemas.ts'
import type { ExplainedDelivery, ExplainedEndpoint } from './service.ts'

const defaultLimit = 25

/** The endpoints to explain. Each endpoint costs a few reads. */
const WhyQuery = Type.Object({
  limit: optional(Type.Integer({ minimum: 1, maximum: worstKept }), 'Largest number of endpoints; 25 by default.'),
  sort: optional(
    Type.Enum([...queueSorts]),
    'The worst first: by the number of waiting deliveries (default), or by the age of the oldest one.',
  ),
})

/** Text whose values the library knows by type. The reference leaves them open, because new ones come. */
function named<Names extends string>(description: string) {
  return Type.Unsafe<Names>(text(description))
}

const BlockerOut = Type.Object({
  reason: named<BlockerReason>('By name, such as `held`, `rate_limited` or `paused`'),
  detail: text('The same as a sentence.'),
  until: nullable(instant('Time at which it ends by itself; null when unknown, or when an operator must act.')),
})

const reasonMeaning =
  'By name, such as `held`, `rate_limited`, `waiting_for_retry` or `delivered`; of blockers, the first'

const endpointReason = named<BlockerReason | 'delivering' | 'idle'>(reasonMeaning)

const detail = text('The same as a sentence.')

const nextAt = nullable(instant('Earliest time at which it moves on by itself.'))

const blockers = Type.Array(BlockerOut, { description: 'Everything that blocks it, the most decisive first.' })

const isLive = flag(
  'Whether the worker that owns the lane answered (live); otherwise the answer is from the last stored state.',
)

const warning = nullable(
  text(
    'A fault of the endpoint by which attempts fail, now or soon: its client certificate expires within 30 days, or has.',
  ),
)

/** Why a message has not been delivered to an endpoint yet, or how it ended. */
export const WhyOut = Type.Object({
  msgId,
  endpointId,
  reason: named<WhyReason>(reasonMeaning),
  detail,
  warning,
  expectedAt: nullable(instant('Time of the next attempt, as `forecast` has it; null when that is now or unknown.')),
  forecast: nullable(ForecastOut),
  blockers,
  endsAt: nullable(instant('Time at which it becomes a dead letter, by its expiry or its maximum age.')),
  ahead: whole('Deliveries that are served before it: of the endpoint, or of its ordering key.'),
  isAheadExact: flag('Whether they were counted; otherwise the number is about right.'),
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
  reason: endpointReason,
  detail,
  warning,
  nextAt,
  condition,
  forecast: ForecastOut,
  blockers,
  waiting: Waiting,
  oldestSince: nullable(instant('Since when the oldest delivery has been waiting.')),
  isLive,
  asOf: Instant,
})

const allFields = {
  detail: text('How many deliveries wait, and why, in a sentence.'),
  blockers: Type.Array(BlockerOut, { description: 'Everything that blocks all endpoints.' }),
  waiting: WaitingTotals,
  done: flag('Whether `data` has every endpoint with waiting deliveries.'),
  asOf: Instant,
}

/** The endpoints of an application that have waiting deliveries, the worst first. */
export const ApplicationWhyOut = Type.Object({
  appId: Type.String(),
  ...allFields,
  data: Type.Array(EndpointWhyOut, { description: 'The endpoints, the worst first.' }),
})

/** The endpoints of all applications that have waiting deliveries, the worst first. */
const AllWhyOut = Type.Object({
  ...allFields,
  data: Type.Array(
    Type.Object({
      appId,
      appUid: uidOut,
      ...EndpointWhyOut.properties,
    }),
    { description: 'The endpoints, the worst first.' },
  ),
})

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
    warning: warningOf(endpoint, lane.now),
    expectedAt: isoOrNull(why.expectedAt),
    forecast: why.forecast && toForecastOut(why.forecast),
    blockers: why.blockers.map(toBlockerOut),
    endsAt: isoOrNull(queued?.endsAt ?? null),
    ahead: (queued?.turn.ahead ?? 0) + (queued?.turn.higher ?? 0),
    isAheadExact: queued?.turn.isExact ?? true,
    attempts: latest?.n ?? 0,
    lastAttempt: latest === undefined ? null : toAttemptOut(latest, message, endpoint, true),
    isLive: lane.live !== null,
    asOf: iso(lane.now),
  }
}

function toEndpointWhyOut(explained: ExplainedEndpoint): Out<typeof EndpointWhyOut> {
  const { endpoint, why, lane } = explained
  return {
    endpointId: endpoint.id,
    uid: endpoint.uid,
    url: endpoint.url,
    reason: why.reason,
    detail: why.detail,
    warning: warningOf(endpoint, lane.now),
    nextAt: isoOrNull(why.nextAt),
    condition: why.condition,
    forecast: toForecastOut(why.forecast),
    blockers: why.blockers.map(toBlockerOut),
    waiting: toWaitingOut(lane.queue),
    oldestSince: isoOrNull(lane.queue.oldestSince),
    isLive: lane.live !== null,
    asOf: iso(lane.now),
  }
}

function warningOf({ clientCertificate }: Endpoint, now: EpochMs): string | null {
  // A certificate that is not valid yet is not shown while the one before it is there.
  const shown = clientCertificate?.find(({ validFrom }) => validFrom <= now) ?? clientCertificate?.[0]
  return shown === undefined ? null : certificateWarning(shown, now)
}

function toBlockerOut({ reason, detail, until }: Blocker): Out<typeof BlockerOut> {
  return { reason, detail, until: isoOrNull(until) }
}

/** The endpoints that are worst off, and the fields that describe all. */
async function explainAll(
  { explainer, clock }: Services,
  app: number | null,
  { limit = defaultLimit, sort = 'waiting' }: { readonly limit?: number; readonly sort?: QueueSort },
) {
  const { totals, worst } = await explainer.worst(app, { [sort]: limit })
  const fields = {
    detail: describeAll(
      totals,
      worst.map(({ why }) => why),
    ),
    blockers: wideBlockers(worst.map(({ lane }) => lane)).map(toBlockerOut),
    waiting: toTotalsOut(totals),
    done: totals.endpoints <= limit,
    asOf: iso(worst[0]?.lane.now ?? clock.now()),
  }
  return { fields, worst }
}

export const why = {
  tag: 'Lane',
  schemas: { BlockerOut, WhyOut, EndpointWhyOut, ApplicationWhyOut, AllWhyOut },
  routes: [
    route('GET /app/:app/msg/:message/endpoint/:endpoint/why', view, {
      id: 'v1.lane.why',
      summary: 'Explain why a message is not delivered yet',
      description:
        'For an ended delivery, its end. Sluice asks the worker that owns the lane, and waits up to half a second for it.',
      answers: { 200: WhyOut },
      handle: async ({ message, endpoint }, { explainer }) =>
        toWhyOut(message, endpoint, await explainer.delivery(message, endpoint)),
    }),
    route('GET /app/:app/endpoint/:endpoint/why', view, {
      id: 'v1.lane.why-endpoint',
      summary: 'Explain what the deliveries of an endpoint wait for',
      answers: { 200: EndpointWhyOut },
      handle: async ({ endpoint }, { explainer }) => toEndpointWhyOut(await explainer.endpoint(endpoint)),
    }),
    route('GET /app/:app/why', view, {
      id: 'v1.lane.why-application',
      summary: 'Explain what the endpoints of an application wait for',
      description:
        'The endpoints with waiting deliveries that are worst off in the whole application. `why` of an endpoint explains any other.',
      query: WhyQuery,
      answers: { 200: ApplicationWhyOut },
      handle: async ({ app, query }, services) => {
        const { fields, worst } = await explainAll(services, app.key, query)
        return { appId: app.id, ...fields, data: worst.map(toEndpointWhyOut) }
      },
    }),
    route('GET /why', read, {
      id: 'v1.lane.why-all',
      summary: 'Explain what the endpoints of all applications wait for',
      description: 'The endpoints with waiting deliveries that are worst off.',
      query: WhyQuery,
      answers: { 200: AllWhyOut },
      handle: async ({ query }, services) => {
        const { fields, worst } = await explainAll(services, null, query)
        const apps = await services.store.applicationRefs(worst.map(({ endpoint }) => endpoint.app))
        const data = worst.flatMap((explained) => {
          const app = apps.get(explained.endpoint.app)
          return app === undefined ? [] : [{ appId: app.id, appUid: app.uid, ...toEndpointWhyOut(explained) }]
        })
        return { ...fields, data }
      },
    }),
  ],
} satisfies Noun
