import { type Static, Type } from 'typebox'
import { AppError, noSuch } from '../../domain/app-error.ts'
import { type Clock, type EpochMs, parseInstant } from '../../domain/clock.ts'
import type { CircuitAction } from '../../domain/flow.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import type { Outcome } from '../../domain/outcome.ts'
import { attempt, manage, view } from '../../operations/access.ts'
import {
  closed,
  dateTime,
  described,
  flag,
  integer,
  iso,
  nameText,
  nullable,
  optional,
  text,
  whole,
} from '../../operations/fields.ts'
import { found } from '../../operations/lookup.ts'
import { type Incoming, type Noun, type Out, route } from '../../operations/route.ts'
import type { Services, Trial } from '../../operations/services.ts'
import { refuseIf, toleranceMs } from '../../operations/validate.ts'
import type { EndpointChange, Store } from '../../store/store.ts'
import { headerNames } from '../../wire/receiver.ts'
import { makeSecret, readSecret, secretProblem } from '../../wire/secret.ts'
import type { Application } from '../applications/noun.ts'
import {
  AuthIn,
  ClientCertificateIn,
  completedProblems,
  credentialProblems,
  toAuth,
  toCertificates,
} from '../credentials/schemas.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { EndpointOut, showEndpoint } from '../endpoints/schemas.ts'
import { ExampleTooLarge, exampleOf, exampleValuesLimit } from '../event-types/example.ts'
import { isShownTo, newestSchema } from '../event-types/noun.ts'
import { MessageOut, messageBytes } from '../messages/schemas.ts'

/** The time to count, within the last 28 days. */
const StatsQuery = Type.Object({
  since: optional(dateTime, 'From this instant on, RFC 3339.'),
  until: optional(dateTime, 'Before this instant, RFC 3339; now by default.'),
})

const EndpointStats = Type.Object({
  success: Type.Integer(),
  pending: Type.Integer(),
  sending: Type.Integer(),
  fail: Type.Integer(),
  canceled: Type.Integer(),
})

/** The ends of attempts alone, as newer clients ask for them. An attempt that has ended was never canceled. */
const EndpointAttemptStats = Type.Pick(EndpointStats, ['success', 'fail', 'canceled'])

const EventExampleIn = Type.Object(
  {
    eventType: described(nameText, 'Event type, such as `video.trending`.'),
    exampleIndex: optional(integer(0, 10_000), "Index into the schema's own examples."),
  },
  closed,
)

const longestMs = 28 * 24 * 60 * 60 * 1000
/** The store's clock may be ahead of this machine's; an attempt that has just ended counts. */
const skewMs = 60_000

/** The asked time as instants: without bounds, the last 28 days. In a time that ends before it begins, nothing happened. */
function readStatsRange(query: Static<typeof StatsQuery>, now: EpochMs): { since: EpochMs; until: EpochMs } {
  const until = query.until === undefined ? now : parseInstant(query.until)
  const since = query.since === undefined ? now - longestMs : parseInstant(query.since)
  const problem = (field: string, message: string) => ({ at: ['query', field], message, type: 'range' })
  refuseIf([
    ...(Number.isNaN(until) ? [problem('until', 'is not an instant')] : []),
    ...(Number.isNaN(since) ? [problem('since', 'is not an instant')] : []),
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

export async function exampleFor(
  { store, clock, bodyLimitBytes }: Services,
  caller: Incoming['caller'],
  name: string,
  index: number,
): Promise<unknown> {
  if (name === ping) return { success: true }
  const known = await store.findEventType(name)
  if (known !== undefined && !isShownTo(caller?.featureFlags ?? null, known)) throw noSuch('event type', name)
  // While there is no event type at all, messages of any name can be published.
  if (known === undefined && (await store.eventTypesAmong([name])) !== undefined) throw noSuch('event type', name)
  const schema = newestSchema(known?.schemas ?? null)
  // The form that Standard Webhooks recommends for payloads.
  if (schema === undefined) return { type: name, timestamp: iso(clock.now()), data: { example: true } }
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
  return route(`POST /app/:app/endpoint/:endpoint/${name}`, manage, {
    id: `v1.endpoint.${name}`,
    summary,
    ...(description && { description }),
    answers: { 200: EndpointOut },
    handle: ({ endpoint }, services) => change(services, endpoint, { paused }),
  })
}

/** A command on a circuit is stored; the worker that has the lane carries it out once. */
function circuitRoute(action: CircuitAction, summary: string, description: string) {
  return route(`POST /app/:app/endpoint/:endpoint/circuit/${action}`, manage, {
    id: `v1.endpoint.${action}-circuit`,
    summary,
    description,
    answers: { 200: EndpointOut },
    handle: ({ endpoint }, services) =>
      change(services, endpoint, ({ flow }) => ({
        flow: { circuitOrder: { n: (flow.circuitOrder?.n ?? 0) + 1, action } },
      })),
  })
}

async function change(services: Services, { app, key, id }: Endpoint, fields: EndpointChange) {
  return showEndpoint(services, found(await services.store.updateEndpoint(app, key, fields), 'endpoint', id))
}

const controlRoutes = [
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
  route('GET /app/:app/endpoint/:endpoint/stats', view, {
    id: 'v1.endpoint.get-stats',
    summary: "Count an endpoint's attempts by how they ended",
    query: StatsQuery,
    answers: { 200: EndpointStats },
    handle: async ({ endpoint, query }, { store, clock, explainer }) => {
      const { success, fail } = await countEnds(endpoint, query, store, clock)
      const { queue, live } = (await explainer.endpoint(endpoint)).lane
      // A delivery that is being sent waits in the store until its end is recorded.
      const { waiting } = queue
      const sending = Math.min(waiting, live?.snapshot.inFlight ?? 0)
      return { success, pending: waiting - sending, sending, fail, canceled: 0 }
    },
  }),
  route('GET /app/:app/endpoint/:endpoint/attempt-stats', view, {
    id: 'v1.endpoint.get-attempt-stats',
    summary: "Count an endpoint's ended attempts",
    query: StatsQuery,
    answers: { 200: EndpointAttemptStats },
    handle: async ({ endpoint, query }, { store, clock }) => ({
      ...(await countEnds(endpoint, query, store, clock)),
      canceled: 0,
    }),
  }),
  route('POST /app/:app/endpoint/:endpoint/send-example', attempt, {
    id: 'v1.endpoint.send-example',
    summary: 'Send an example of an event type to an endpoint',
    description:
      'Made from the schema of the event type; without a schema, `type`, `timestamp` and `data`. `svix.ping` is always there.',
    body: EventExampleIn,
    answers: { 200: MessageOut },
    handle: async ({ endpoint, body: { eventType, exampleIndex = 0 }, request }, services) => {
      const payload = Buffer.from(JSON.stringify(await exampleFor(services, request.caller, eventType, exampleIndex)))
      const about = { eventType, eventId: null, channels: null }
      const envelope = { ...about, contentType: 'application/json', delayMs: 0 }
      const { key, id } = await services.publisher.publishToOne(endpoint, { envelope, body: payload })
      return messageBytes({ key, id, ...about }, payload)
    },
  }),
]

/** A URL that is no endpoint yet, to send one example to. */
const EndpointTrialIn = Type.Object(
  {
    url: Type.String({ minLength: 1, maxLength: 65_536, description: 'URL to send the example to.' }),
    eventType: optional(nameText, `Event type of the example; \`${ping}\` by default.`),
    secret: optional(
      Type.String({ maxLength: 256 }),
      'Secret to sign with, which the endpoint can be created with later; a random one by default.',
    ),
    auth: optional(AuthIn, 'Credentials of the request, as of an endpoint.'),
    clientCertificate: optional(ClientCertificateIn, 'Certificate that the connection shows, as of an endpoint.'),
  },
  closed,
)

const EndpointTrialOut = Type.Object({
  delivered: flag('Whether the receiver answered 2xx.'),
  code: text('The outcome by name, such as `delivered`, `timeout` or `tls_failed`.'),
  responseStatusCode: whole('0 when there was no answer'),
  responseDurationMs: whole('Duration of the attempt.'),
  response: text('Answer of the receiver, cut short.'),
  error: nullable(text('Why it failed, as a sentence.')),
})

const names = Type.Object({
  id: text('Header with the id of the message.'),
  timestamp: text('Header with the time of the attempt; empty where the signature header has it.'),
  signature: text('Header with the signatures.'),
})

const algorithms = ['hmac-sha256', 'ed25519'] as const

const EndpointSignatureOut = Type.Object({
  profile: text('Signature profile of the endpoint.'),
  algorithm: Type.Enum([...algorithms], { description: 'Algorithm of the signatures, by the kind of the secret.' }),
  headers: Type.Array(names, { description: 'Headers that carry the signature. Two sets carry the same values.' }),
})

const longestTrialMs = 10_000
/** Trials under way at once, of one application and in all. */
const trialsPerApplication = 2
const trialsInAll = 16

const trialRoutes = [
  route('POST /app/:app/endpoint/test', attempt, {
    id: 'v1.endpoint.test',
    summary: 'Send an example to a URL before it becomes an endpoint',
    description:
      'Makes one attempt at once (limit 10 s, and 10 s more for an access token). Stores nothing. The URL must meet the same rules as that of an endpoint.',
    body: EndpointTrialIn,
    answers: { 200: EndpointTrialOut },
    handle: async ({ app, body, request }, services) => {
      const { url, eventType = ping } = body
      refuseIf([
        ...services.checkUrl(url).map((message) => ({ at: ['body', 'url'], message, type: 'url' })),
        ...credentialProblems(body, services.checkUrl),
      ])
      const auth = body.auth === undefined ? null : toAuth(body.auth)
      const clientCertificate = body.clientCertificate === undefined ? null : toCertificates(body.clientCertificate)
      refuseIf(completedProblems({ url, auth, clientCertificate }, undefined))
      const secret = secretOf(body, services)
      const payload = Buffer.from(JSON.stringify(await exampleFor(services, request.caller, eventType, 0)))
      const message = { id: `msg_test${services.randomText(23)}`, eventType, body: payload }
      const signatureHeaders = app.settings.signatureHeaders ?? null
      return toTrialOut(
        await tryOnce(services, app, { url, secret, auth, clientCertificate, signatureHeaders, message }),
      )
    },
  }),
  route('GET /app/:app/endpoint/:endpoint/signature', view, {
    id: 'v1.endpoint.get-signature',
    summary: 'Get the names of the headers that carry the signature of an endpoint',
    answers: { 200: EndpointSignatureOut },
    handle: ({ app, endpoint }, { signatureHeaders }) => {
      const profile = endpoint.flow.signature
      const algorithm = endpoint.secrets[0]?.secret.startsWith('whsk_') ? algorithms[1] : algorithms[0]
      return {
        profile,
        algorithm,
        headers: [...headerNames(profile, app.settings.signatureHeaders ?? signatureHeaders)],
      }
    },
  }),
]

/** Operations on an application's endpoint beyond its fields. */
export const endpointControl = {
  tag: 'Endpoint',
  schemas: {
    EndpointStats,
    EndpointAttemptStats,
    EventExampleIn,
    EndpointTrialIn,
    EndpointTrialOut,
    EndpointSignatureOut,
  },
  routes: [...controlRoutes, ...trialRoutes],
} satisfies Noun

function secretOf({ secret }: Static<typeof EndpointTrialIn>, { randomBytes }: Services): string {
  if (secret === undefined) return makeSecret(randomBytes)
  const read = readSecret(secret, 'standard')
  if (read === undefined) refuseIf([secretProblem('secret')])
  return read as string
}

const underWay = new WeakMap<object, Map<number, number>>()

/** Makes one attempt. A receiver that answers late keeps a slot of its application, and of no other. */
async function tryOnce(services: Services, app: Application, trial: Omit<Trial, 'timeoutMs'>): Promise<Outcome> {
  const counts = underWay.get(services.store) ?? new Map<number, number>()
  underWay.set(services.store, counts)
  const own = counts.get(app.key) ?? 0
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0)
  if (own >= trialsPerApplication || all >= trialsInAll) {
    const message = 'Other tests are under way; try again when they have ended.'
    throw new AppError('rate_limited', message, [], { retryAfterMs: 1000 })
  }
  counts.set(app.key, own + 1)
  try {
    return await services.tryOnce({ ...trial, timeoutMs: Math.min(services.serverDefaults.timeoutMs, longestTrialMs) })
  } finally {
    const left = (counts.get(app.key) ?? 1) - 1
    if (left === 0) counts.delete(app.key)
    else counts.set(app.key, left)
  }
}

function toTrialOut({ code, status, durationMs, response, error }: Outcome): Out<typeof EndpointTrialOut> {
  return {
    delivered: code === 'delivered',
    code,
    responseStatusCode: status,
    responseDurationMs: Math.round(durationMs),
    response: response === undefined ? '' : Buffer.from(response).toString('utf8'),
    error: error ?? null,
  }
}
