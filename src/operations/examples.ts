import { programFolder } from '../assets/assets.ts'
import { nouns } from '../features/nouns.ts'
import type { Declaration } from '../noun/noun.ts'

/** An example of a request. The names in its path come from `exampleName`. */
interface Example {
  readonly query?: Readonly<Record<string, string | number | boolean>>
  /** A JSON value; a text for bodies of lines or bytes, which `contentType` describes. */
  readonly body?: unknown
  readonly contentType?: string
  readonly headers?: Readonly<Record<string, string>>
}

type PathParameter = readonly [name: string, description: string, example: string]

/**
 * The parameters of paths by their names in routes: the name in the reference, which is Svix's, a description, and an example,
 * which is a uid wherever the API takes one.
 */
export const pathParameters: Readonly<Record<string, PathParameter>> = {
  app: ['app_id', 'The id or uid of an application', 'acme'],
  endpoint: ['endpoint_id', 'The id or uid of an endpoint', 'crm'],
  message: ['msg_id', 'The id or eventId of a message', 'invoice-1042'],
  attempt: ['attempt_id', 'The id of an attempt', 'atmpt_3xKq0d4Sbf7Zp1uYcQ2mN8vRt5a'],
  name: ['event_type_name', 'The name of an event type', 'invoice.paid'],
  task: ['task_id', 'The id of a background task', 'qtask_3xKq0d5Tck2Wd9sLhB6xJ4pMe7r'],
  erasure: ['erasure_id', 'The id of an erasure', 'qtask_3xKq0d8Wgp6Sl9dZyU2tV4nJq5e'],
  ...Object.fromEntries(
    Object.entries(nouns).map(([path, { name, examples }]) => [
      path,
      [`${path}_id`, `The id or uid of a ${name}`, examples.uid],
    ]),
  ),
  region: ['region', 'The name of a region', 'eu'],
  key: ['key_id', 'The id of an API key', 'key_3xKq0d3Rav8Hn3tFgV5zC1qKy6w'],
  session: ['session_id', 'The id of a session', 'sess_3xKq0d6Udm4Qj7bXwS9rT2kGn3c'],
  sourceId: ['source_id', 'The id of a source', 'src_3xKq0d8Wgp6Sl9dZyU2tV4nJq5e'],
  token: ['token', 'The token of the URL of a source', 'in_3xKq0d8Wgp6Sl9dZyU2tV4nJq5e'],
  silence: ['silence_id', 'The id of a silence', 'slnc_3xKq0d7Vfn5Rk8cYxT1sU3mHp4d'],
}

export function exampleName(path: string, name: string): string {
  if (path.startsWith('/operational-webhook')) return 'on-call'
  // The URL of a source takes its id alone.
  return pathParameters[path.startsWith('/ingress/') ? 'sourceId' : name]?.[2] ?? ''
}

const since = '2026-11-16T00:00:00Z'
const until = '2026-11-17T00:00:00Z'
const url = 'https://crm.example.com/webhooks'
const payload = { invoice: 1042, amount: '49.00', currency: 'EUR' }
const headers = { 'x-tenant': 'acme' }
const invoiceSchema = {
  type: 'object',
  required: ['invoice', 'amount'],
  properties: { invoice: { type: 'integer' }, amount: { type: 'string' }, currency: { type: 'string' } },
}
const description = 'A customer paid an invoice.'
const page = { query: { limit: 50 } }
/** The examples of a noun's operations: its lists take a page. */
function examplesOf(name: string, { owner, examples }: Declaration): [string, Example][] {
  const lists = { list: page, ...(owner !== undefined && { 'list-all': page }) }
  return Object.entries({ ...lists, ...examples?.of }).map(([operation, example]) => [
    `v1.${name}.${operation}`,
    example,
  ])
}

/** A webhook of Meta, signed with the secret of the example. */
export const metaSecret = 'an app secret of Meta'
export const metaToken = 'a verify token'
const metaEvent: Example = {
  body: '{"object":"page","entry":[{"id":"0","time":1763283600}]}',
  contentType: 'application/json',
  headers: { 'x-hub-signature-256': 'sha256=5f8f9c1cea346410980d997f30f5bf488168e3b5025406b2d56b3bd4b3b198e4' },
}
const metaChallenge: Example = {
  query: { 'hub.mode': 'subscribe', 'hub.verify_token': metaToken, 'hub.challenge': '1158201444' },
}
const ingestSource = {
  name: 'Payments',
  uid: 'payments',
  type: 'stripe',
  config: { secret: 'whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH' },
}
const ingestEndpoint = { url, uid: 'crm', throttleRate: 20 }

/**
 * Examples of the operations that take a query or a body, by operation. Those of Svix's operations have only fields that
 * Svix's SDKs know, so that the same example can be written with an SDK. A test sends every one of them.
 */
export const examples: Readonly<Record<string, Example>> = {
  ...Object.fromEntries(Object.entries<Declaration>(nouns).flatMap(([name, noun]) => examplesOf(name, noun))),
  'v1.application.list': page,
  'v1.application.create': { body: { name: 'Acme', uid: 'acme' } },
  'v1.application.update': { body: { name: 'Acme Inc.', uid: 'acme', throttleRate: 100 } },
  'v1.application.patch': { body: { throttleRate: 200 } },
  'v1.endpoint.list': page,
  'v1.endpoint.create': { body: { url, uid: 'crm', eventTypes: ['invoice.paid'], throttleRate: 20 } },
  'v1.endpoint.update': { body: { url: `${url}/v2`, uid: 'crm', eventTypes: ['invoice.paid', 'invoice.voided'] } },
  'v1.endpoint.patch': { body: { throttleRate: 50 } },
  'v1.endpoint.rotate-secret': { body: {} },
  'v1.endpoint.update-headers': { body: { headers } },
  'v1.endpoint.patch-headers': { body: { headers } },
  'v1.endpoint.get-stats': { query: { since, until } },
  'v1.endpoint.get-attempt-stats': { query: { since, until } },
  'v1.endpoint.send-example': { body: { eventType: 'invoice.paid' } },
  'v1.endpoint.test': { body: { url, eventType: 'invoice.paid' } },
  'v1.endpoint.list-all': { query: { sort: 'waiting', limit: 20 } },
  'v1.event-type.list': { query: { limit: 50, with_content: true } },
  'v1.event-type.create': { body: { name: 'invoice.paid', description, schemas: { 1: invoiceSchema } } },
  'v1.event-type.update': { body: { description, schemas: { 1: invoiceSchema } } },
  'v1.event-type.patch': { body: { deprecated: true } },
  'v1.event-type.import-openapi': {
    body: {
      spec: {
        openapi: '3.1.0',
        info: { title: 'Acme', version: '1.0.0' },
        webhooks: {
          'invoice.paid': {
            post: { description, requestBody: { content: { 'application/json': { schema: invoiceSchema } } } },
          },
        },
      },
    },
  },
  'v1.message.create': { body: { eventType: 'invoice.paid', eventId: 'invoice-1042', payload } },
  'v1.message.list': { query: { limit: 50, after: since } },
  'v1.message.create-batch': {
    body: {
      messages: [
        { eventType: 'invoice.paid', eventId: 'invoice-1042', payload },
        { eventType: 'invoice.paid', eventId: 'invoice-1043', payload: { ...payload, invoice: 1043 } },
      ],
    },
  },
  'v1.message.create-from-bytes': {
    query: { event_type: 'invoice.paid', event_id: 'invoice-1042' },
    body: '<invoice number="1042"><amount>49.00</amount></invoice>',
    contentType: 'application/xml',
  },
  'v1.message.precheck': { body: { eventType: 'invoice.paid' } },
  'v1.message.bulk-expunge-content': { body: { ids: ['invoice-1042'] } },
  'v1.region.list': page,
  'v1.audit.trim': { body: { before: '2020-01-01T00:00:00Z' } },
  'v1.region.create': { body: { name: 'eu' } },
  'v1.inbox.retry': { body: { rows: [17] } },
  'v1.source.test': { body: { headers: metaEvent.headers, body: metaEvent.body } },
  'v1.arrival.receive': metaEvent,
  'v1.arrival.verify': metaChallenge,
  'v1.arrival.by-token.receive': metaEvent,
  'v1.arrival.by-token.verify': metaChallenge,
  'v1.ingest.source.list': page,
  'v1.ingest.source.create': { body: ingestSource },
  'v1.ingest.source.update': { body: { ...ingestSource, uid: 'repository' } },
  'v1.ingest.dashboard': { body: { expiry: 3600 } },
  'v1.ingest.endpoint.list': page,
  'v1.ingest.endpoint.create': { body: ingestEndpoint },
  'v1.ingest.endpoint.update': { body: ingestEndpoint },
  'v1.ingest.endpoint.patch': { body: { throttleRate: 50 } },
  'v1.ingest.endpoint.rotate-secret': { body: {} },
  'v1.ingest.endpoint.update-headers': { body: { headers } },
  'v1.ingest.endpoint.patch-headers': { body: { headers } },
  'v1.message-attempt.list-by-endpoint': { query: { status: 2, limit: 50 } },
  'v1.message-attempt.list-by-msg': page,
  'v1.message-attempt.list-attempted-messages': { query: { status: 2, limit: 50 } },
  'v1.message-attempt.list-attempted-destinations': page,
  'v1.message-attempt.list-by-msg-deprecated': page,
  'v1.message-attempt.list-by-endpoint-deprecated': page,
  'v1.endpoint.replayable': { query: { since } },
  'v1.endpoint.recover': { body: { since } },
  'v1.endpoint.replay-missing': { body: { since, until } },
  'v1.endpoint.bulk-replay': { body: { since, until, eventTypes: ['invoice.paid'] } },
  'v1.dead.list': { query: { endpoint_id: 'crm', limit: 50 } },
  'v1.dead.count': { query: { endpoint_id: 'crm' } },
  'v1.dead.purge': { query: { before: since } },
  'v1.dead.replay': { body: { endpointId: 'crm', perSecond: 10 } },
  'v1.dead.export': { query: { endpoint_id: 'crm' } },
  'v1.dead.import': {
    query: { dry_run: true },
    body: `${JSON.stringify({
      msgId: 'msg_3xKq0d4Sbf7Zp1uYcQ2mN8vRt5a',
      endpointId: 'ep_3xKq0d4Rzx2Bt6kWcM8nQ5vJh1s',
      endpointUid: 'crm',
      eventType: 'invoice.paid',
      eventId: 'invoice-1042',
      reason: 'exhausted',
      attempts: 8,
      diedAt: '2026-11-16T09:00:00.000Z',
      responseStatusCode: 503,
      code: 'refused',
      bodyBase64: Buffer.from(JSON.stringify(payload)).toString('base64'),
    })}\n`,
    contentType: 'application/jsonl',
  },
  'v1.dead.import-all': {
    query: { dry_run: true },
    body: `${JSON.stringify({
      appUid: 'acme',
      msgId: 'msg_3xKq0d4Sbf7Zp1uYcQ2mN8vRt5a',
      endpointId: 'ep_3xKq0d4Rzx2Bt6kWcM8nQ5vJh1s',
      endpointUid: 'crm',
      eventType: 'invoice.paid',
      eventId: 'invoice-1042',
      reason: 'exhausted',
      attempts: 8,
      diedAt: '2026-11-16T09:00:00.000Z',
      responseStatusCode: 503,
      code: 'refused',
      bodyBase64: Buffer.from(JSON.stringify(payload)).toString('base64'),
    })}\n`,
    contentType: 'application/jsonl',
  },
  'v1.dead.list-all': { query: { reason: 'exhausted', limit: 50 } },
  'v1.dead.count-all': { query: { reason: 'exhausted' } },
  'v1.dead.purge-all': { query: { before: since } },
  'v1.dead.replay-all': { body: { reason: 'exhausted', perSecond: 10 } },
  'v1.dead.export-all': { query: { after: since } },
  'v1.lane.retry-head': { body: {} },
  'v1.lane.skip-head': { body: {} },
  'v1.lane.why-application': { query: { limit: 20 } },
  'v1.lane.why-all': { query: { limit: 20 } },
  'v1.background-task.list': page,
  'v1.subject.erase': { body: { subject: 'ann@example.com' } },
  'v1.subject.export': { body: { subject: 'ann@example.com' } },
  'v1.erasure.list': page,
  'v1.live.follow': { query: { app: 'acme' } },
  'v1.statistics.aggregate-app-stats': { body: { since, until, appIds: ['acme'] } },
  'v1.history.get': { query: { app: 'acme', range: '1h' } },
  'v1.history.sparklines': { query: { app: 'acme', endpoint: 'crm', range: '24h' } },
  'v1.authentication.app-portal-access': { body: { expiry: 3600 } },
  'v1.authentication.expire-all': { body: { expiry: 60 } },
  'v1.session.list': page,
  'v1.portal.set': { body: { name: 'Acme webhooks', color: '#2d54d8' } },
  'v1.api-key.list': page,
  'v1.api-key.create': { body: { name: 'billing service', scopes: ['publish'], app: 'acme' } },
  'v1.audit.list': { query: { action: 'POST /app/:app/endpoint', limit: 50 } },
  'v1.operational-webhook.endpoint.list': page,
  'v1.operational-webhook.endpoint.create': { body: { url: 'https://ops.example.com/sluice', uid: 'on-call' } },
  'v1.operational-webhook.endpoint.update': { body: { url: 'https://ops.example.com/sluice/v2', uid: 'on-call' } },
  'v1.operational-webhook.endpoint.patch': { body: { description: 'The on-call channel' } },
  'v1.operational-webhook.endpoint.rotate-secret': { body: {} },
  'v1.operational-webhook.endpoint.update-headers': { body: { headers } },
  'v1.operational-webhook.endpoint.patch-headers': { body: { headers } },
  'v1.alert.silence': { body: { rule: 'waiting', seconds: 3600, reason: 'a planned move' } },
  'v1.find.get': { query: { text: 'invoice-1042' } },
  'v1.worker.list': { query: { ended: true } },
}

/** The answers to the examples, by operation and status, as a server gave them: `UPDATE_EXAMPLES=1` records them again. */
type ExampleAnswers = Readonly<Record<string, { readonly status: string; readonly body: unknown }>>

let answers: ExampleAnswers | undefined

export function exampleAnswers(): ExampleAnswers {
  answers ??= JSON.parse(programFolder('operations').read('example-answers.json').toString('utf8')) as ExampleAnswers
  return answers
}
