import { EndpointHeadersOut, EndpointOut, EndpointSecretOut, EndpointStats } from '../answers/endpoint.ts'
import { listOf } from '../answers/field.ts'
import { MessageOut } from '../answers/message.ts'
import { PageQuery } from '../page.ts'
import { EndpointIn, EndpointPatch, EndpointPut } from '../schemas/endpoint.ts'
import { EndpointHeadersIn, EndpointHeadersPatch } from '../schemas/endpoint-headers.ts'
import { SecretRotateIn } from '../schemas/endpoint-secret.ts'
import { StatsQuery } from '../schemas/endpoint-stats.ts'
import { EventExampleIn } from '../schemas/event-type.ts'
import { type Operation, tagged } from './operation.ts'

type Untagged = Readonly<Record<string, Omit<Operation, 'tag'>>>

/** What endpoints have wherever they live. */
function endpointsAt(path: string, id: string, whose: string): Untagged {
  const one = `${path}/:endpoint`
  return {
    [`GET ${path}`]: {
      id: `${id}.list`,
      summary: `List the endpoints of ${whose}`,
      query: PageQuery,
      answers: { 200: listOf(EndpointOut) },
    },
    [`POST ${path}`]: {
      id: `${id}.create`,
      summary: `Create an endpoint of ${whose}`,
      description:
        'Its limits are kept by every worker together: at most burst + rate × time, never more than concurrency.',
      body: EndpointIn,
      answers: { 201: EndpointOut },
    },
    [`GET ${one}`]: { id: `${id}.get`, summary: 'Get an endpoint', answers: { 200: EndpointOut } },
    [`PUT ${one}`]: {
      id: `${id}.update`,
      summary: 'Replace an endpoint, or create it',
      description: 'What is absent goes back to its default; uid, headers and secret stay.',
      body: EndpointPut,
      answers: { 200: EndpointOut, 201: EndpointOut },
    },
    [`PATCH ${one}`]: {
      id: `${id}.patch`,
      summary: 'Change some fields of an endpoint',
      description: 'What is absent stays; null unsets.',
      body: EndpointPatch,
      answers: { 200: EndpointOut },
    },
    [`DELETE ${one}`]: {
      id: `${id}.delete`,
      summary: 'Delete an endpoint',
      description: 'Deliveries that have not ended are cancelled, and the uid is free again.',
      answers: { 204: null },
    },
    [`GET ${one}/secret`]: {
      id: `${id}.get-secret`,
      summary: "Get an endpoint's signing secret",
      answers: { 200: EndpointSecretOut },
    },
    [`POST ${one}/secret/rotate`]: {
      id: `${id}.rotate-secret`,
      summary: "Change an endpoint's signing secret",
      description: 'The old one goes on signing beside the new one for the grace period, a day by default.',
      body: SecretRotateIn,
      answers: { 204: null },
    },
    [`GET ${one}/headers`]: {
      id: `${id}.get-headers`,
      summary: 'Get the headers that go out with every delivery',
      answers: { 200: EndpointHeadersOut },
    },
    [`PUT ${one}/headers`]: {
      id: `${id}.update-headers`,
      summary: 'Replace the headers that go out with every delivery',
      body: EndpointHeadersIn,
      answers: { 204: null },
    },
    [`PATCH ${one}/headers`]: {
      id: `${id}.patch-headers`,
      summary: 'Change some of the headers that go out with every delivery',
      description: 'Null, or being named in `deleteHeaders`, removes one.',
      body: EndpointHeadersPatch,
      answers: { 204: null },
    },
  }
}

export const endpointOperations = tagged('Endpoint', {
  ...endpointsAt('/app/:app/endpoint', 'v1.endpoint', 'an application'),
  'POST /app/:app/endpoint/:endpoint/pause': {
    id: 'v1.endpoint.pause',
    summary: 'Hold an endpoint',
    description: 'What is published meanwhile waits, and is delivered when it is resumed.',
    answers: { 200: EndpointOut },
  },
  'POST /app/:app/endpoint/:endpoint/resume': {
    id: 'v1.endpoint.resume',
    summary: 'Let a held endpoint go on',
    answers: { 200: EndpointOut },
  },
  'POST /app/:app/endpoint/:endpoint/circuit/open': {
    id: 'v1.endpoint.open-circuit',
    summary: "Open an endpoint's circuit",
    description: 'Nothing is sent, and no attempt is spent, until it is closed or reset. What is published waits.',
    answers: { 200: EndpointOut },
  },
  'POST /app/:app/endpoint/:endpoint/circuit/close': {
    id: 'v1.endpoint.close-circuit',
    summary: "Close an endpoint's circuit",
    description: 'What waits is sent, at a rate that climbs to the usual one.',
    answers: { 200: EndpointOut },
  },
  'POST /app/:app/endpoint/:endpoint/circuit/reset': {
    id: 'v1.endpoint.reset-circuit',
    summary: "Close an endpoint's circuit and forget its failures",
    description: 'What waits is sent at the usual rate at once, and the endpoint counts as never having failed.',
    answers: { 200: EndpointOut },
  },
  'GET /app/:app/endpoint/:endpoint/stats': {
    id: 'v1.endpoint.get-stats',
    summary: "Count an endpoint's attempts by how they ended",
    query: StatsQuery,
    answers: { 200: EndpointStats },
  },
  'POST /app/:app/endpoint/:endpoint/send-example': {
    id: 'v1.endpoint.send-example',
    summary: 'Send an example of an event type to an endpoint',
    description: '`svix.ping` is always there; any other example is made from the schema of the event type.',
    body: EventExampleIn,
    answers: { 200: MessageOut },
  },
})

export const operationalWebhookOperations = tagged('Operational Webhook', {
  ...endpointsAt('/operational-webhook/endpoint', 'v1.operational-webhook.endpoint', 'operational webhooks'),
})
