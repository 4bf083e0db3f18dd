import { type Static, Type } from 'typebox'
import { noSuch } from '../../domain/app-error.ts'
import { type Clock, type EpochMs, instantPattern, parseInstant } from '../../domain/clock.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import {
  ExampleTooLarge,
  exampleOf,
  exampleValuesLimit,
  isShownTo,
  type JsonObject,
  newestSchema,
} from '../../domain/event-type.ts'
import type { CircuitAction } from '../../domain/flow.ts'
import type { Envelope } from '../../intake/publication.ts'
import type { EndpointChange, Store } from '../../store/store.ts'
import { attempt, manage, view } from '../access.ts'
import { described, integer, iso, optional } from '../fields.ts'
import { toleranceMs } from '../instant.ts'
import { found } from '../lookup.ts'
import type { Parts } from '../parts.ts'
import { type Incoming, route } from '../route.ts'
import { refuseIf } from '../validate.ts'
import { EndpointOut, showEndpoint } from './endpoint-schema.ts'
import { eventTypeName } from './event-type-import.ts'
import { MessageOut, messageBytes } from './message-schema.ts'

const instant = Type.String({ pattern: instantPattern })

/** The time to count, within the last 28 days. */
const StatsQuery = Type.Object({
  since: optional(instant, 'From this instant on, RFC 3339.'),
  until: optional(instant, 'Before this instant, RFC 3339; now by default.'),
})

export const EndpointStats = Type.Object({
  success: Type.Integer(),
  pending: Type.Integer(),
  sending: Type.Integer(),
  fail: Type.Integer(),
  canceled: Type.Integer(),
})

/** The ends of attempts alone, as newer clients ask for them. An attempt that has ended was never canceled. */
export const EndpointAttemptStats = Type.Object({
  success: Type.Integer(),
  fail: Type.Integer(),
  canceled: Type.Integer(),
})

export const EventExampleIn = Type.Object({
  eventType: described(eventTypeName, 'Event type, such as `video.trending`.'),
  exampleIndex: optional(integer(0, 10_000), "Index into the schema's own examples."),
})

const longestMs = 28 * 24 * 60 * 60 * 1000
/** The store's clock may be ahead of this machine's; an attempt that has just ended counts. */
const skewMs = 60_000
/** Waiting deliveries are counted no further than this: a larger number would say no more. */
const waitingLimit = 100_000

/** The asked time as instants: without bounds, the last 28 days. Throws AppError. */
function readStatsRange(query: Static<typeof StatsQuery>, now: EpochMs): { since: EpochMs; until: EpochMs } {
  const until = query.until === undefined ? now : parseInstant(query.until)
  const since = query.since === undefined ? now - longestMs : parseInstant(query.since)
  const problem = (field: string, message: string) => ({ at: ['query', field], message, type: 'range' })
  refuseIf([
    ...(Number.isNaN(until) ? [problem('until', 'is not an instant')] : []),
    ...(Number.isNaN(since) ? [problem('since', 'is not an instant')] : []),
    ...(since > until ? [problem('since', 'must not be after until')] : []),
    ...(since < now - longestMs - toleranceMs ? [problem('since', 'must not be more than 28 days ago')] : []),
  ])
  return { since, until: query.until === undefined ? until + skewMs : until }
}

/** Counts attempts in small parts, with a turn for other requests in between. */
async function countEnds({ key }: Endpoint, query: Static<typeof StatsQuery>, store: Store, clock: Clock) {
  const { since, until } = readStatsRange(query, clock.now())
  let [success, fail] = [0, 0]
  for (let after = since; after < until; await new Promise<void>((resolve) => clock.soon(resolve))) {
    const count = await store.countAttempts(key, after, until)
    success += count.delivered
    fail += count.failed
    after = count.reached
  }
  return { success, fail }
}

/** The event type that Svix's clients try an endpoint with. */
export const ping = 'svix.ping'
const pingExample = { success: true }

/** The example of an event type without a schema, in the form that Standard Webhooks recommends for payloads. */
function plainExample(type: string, now: EpochMs): JsonObject {
  return { type, timestamp: iso(now), data: { example: true } }
}

export async function exampleFor(
  { store, clock, bodyLimitBytes }: Parts,
  caller: Incoming['caller'],
  name: string,
  index: number,
): Promise<unknown> {
  if (name === ping) return pingExample
  const known = await store.findEventType(name)
  if (known !== undefined && !isShownTo(caller?.featureFlags ?? null, known)) throw noSuch('event type', name)
  // While there is no event type at all, messages of any name can be published.
  if (known === undefined && (await store.eventTypesAmong([name])) !== undefined) throw noSuch('event type', name)
  const schema = newestSchema(known?.schemas ?? null)
  if (schema === undefined) return plainExample(name, clock.now())
  const example = exampleWithin(schema, index, bodyLimitBytes)
  // A payload is an object, as everywhere.
  return typeof example === 'object' && example !== null && !Array.isArray(example) ? example : { value: example }
}

/** An example as large as a published message may be, and no larger. */
function exampleWithin(schema: JsonObject, index: number, bytesLimit: number): unknown {
  try {
    return exampleOf(schema, index, bytesLimit)
  } catch (error) {
    if (!(error instanceof ExampleTooLarge)) throw error
    const message = `has a schema whose example would have more than ${exampleValuesLimit} values or ${bytesLimit} bytes: add a smaller one to the schema's examples`
    refuseIf([{ at: ['body', 'eventType'], message, type: 'schema' }])
    return undefined
  }
}

function pauseRoute(name: 'pause' | 'resume', paused: boolean, summary: string, description?: string) {
  return route({
    method: 'POST',
    path: `/app/:app/endpoint/:endpoint/${name}`,
    need: manage,
    id: `v1.endpoint.${name}`,
    summary,
    ...(description && { description }),
    answers: { 200: EndpointOut },
    handle: ({ endpoint }, parts) => change(parts, endpoint, { paused }),
  })
}

/** A command on a circuit is stored; the worker that has the lane carries it out once. */
function circuitRoute(action: CircuitAction, summary: string, description: string) {
  return route({
    method: 'POST',
    path: `/app/:app/endpoint/:endpoint/circuit/${action}`,
    need: manage,
    id: `v1.endpoint.${action}-circuit`,
    summary,
    description,
    answers: { 200: EndpointOut },
    handle: ({ endpoint }, parts) =>
      change(parts, endpoint, ({ flow }) => ({
        flow: { circuitOrder: { n: (flow.circuitOrder?.n ?? 0) + 1, action } },
      })),
  })
}

async function change(parts: Parts, { app, key, id }: Endpoint, fields: EndpointChange) {
  return showEndpoint(parts, found(await parts.store.updateEndpoint(app, key, fields), 'endpoint', id))
}

/** Operations on an application's endpoint beyond its fields. */
export const endpointControlRoutes = [
  pauseRoute(
    'pause',
    true,
    'Pause an endpoint',
    'Messages published meanwhile wait, and are delivered after `resume`.',
  ),
  pauseRoute('resume', false, 'Resume an endpoint'),
  circuitRoute(
    'open',
    "Open an endpoint's circuit",
    'No attempt is made or used up until the circuit is closed or reset. Published messages wait.',
  ),
  circuitRoute(
    'close',
    "Close an endpoint's circuit",
    'Waiting deliveries are sent, at a rate that climbs to the normal one.',
  ),
  circuitRoute(
    'reset',
    "Close an endpoint's circuit and forget its failures",
    'Waiting deliveries are sent at the normal rate at once, and the failure count starts from 0.',
  ),
  route({
    method: 'GET',
    path: '/app/:app/endpoint/:endpoint/stats',
    need: view,
    id: 'v1.endpoint.get-stats',
    summary: "Count an endpoint's attempts by how they ended",
    query: StatsQuery,
    answers: { 200: EndpointStats },
    handle: async ({ endpoint, query }, { store, clock, explainer }) => {
      const { success, fail } = await countEnds(endpoint, query, store, clock)
      // A delivery that is being sent waits in the store until its end is recorded.
      const waiting = await store.countWaiting(endpoint.key, waitingLimit)
      const sending = Math.min(waiting, (await explainer.lane(endpoint)).live?.snapshot.inFlight ?? 0)
      return { success, pending: waiting - sending, sending, fail, canceled: 0 }
    },
  }),
  route({
    method: 'GET',
    path: '/app/:app/endpoint/:endpoint/attempt-stats',
    need: view,
    id: 'v1.endpoint.get-attempt-stats',
    summary: "Count an endpoint's ended attempts",
    query: StatsQuery,
    answers: { 200: EndpointAttemptStats },
    handle: async ({ endpoint, query }, { store, clock }) => ({
      ...(await countEnds(endpoint, query, store, clock)),
      canceled: 0,
    }),
  }),
  route({
    method: 'POST',
    path: '/app/:app/endpoint/:endpoint/send-example',
    need: attempt,
    id: 'v1.endpoint.send-example',
    summary: 'Send an example of an event type to an endpoint',
    description:
      'Made from the schema of the event type; without a schema, `type`, `timestamp` and `data`. `svix.ping` is always there.',
    body: EventExampleIn,
    answers: { 200: MessageOut },
    handle: async ({ endpoint, body: { eventType, exampleIndex = 0 }, request }, parts) => {
      const payload = Buffer.from(JSON.stringify(await exampleFor(parts, request.caller, eventType, exampleIndex)))
      const { key, id } = await parts.publisher.publishToOne(endpoint, {
        envelope: envelopeOf(eventType),
        body: payload,
      })
      const head = { key, id, eventType, eventId: null, channels: null, tags: null, headers: null, deliverAt: null }
      return messageBytes(head, payload)
    },
  }),
]

function envelopeOf(eventType: string): Envelope {
  return { eventType, eventId: null, channels: null, contentType: 'application/json', delayMs: 0 }
}
