import { EndpointOut, EndpointSecretOut } from '../answers/endpoint.ts'
import { listOf } from '../answers/field.ts'
import { PageQuery } from '../pagination.ts'
import { EndpointIn, EndpointPatch } from '../schemas/endpoint.ts'
import { tagged } from './operation.ts'

export const endpointOperations = tagged('Endpoint', {
  'GET /app/:app/endpoint': {
    id: 'v1.endpoint.list',
    summary: 'List the endpoints of an application',
    query: PageQuery,
    answers: { 200: listOf(EndpointOut) },
  },
  'POST /app/:app/endpoint': {
    id: 'v1.endpoint.create',
    summary: 'Create an endpoint',
    description:
      'Its limits are kept by every worker together: at most burst + rate × time, never more than concurrency.',
    body: EndpointIn,
    answers: { 201: EndpointOut },
  },
  'GET /app/:app/endpoint/:endpoint': {
    id: 'v1.endpoint.get',
    summary: 'Get an endpoint',
    answers: { 200: EndpointOut },
  },
  'PATCH /app/:app/endpoint/:endpoint': {
    id: 'v1.endpoint.patch',
    summary: 'Change some fields of an endpoint',
    description: 'What is absent stays; null unsets.',
    body: EndpointPatch,
    answers: { 200: EndpointOut },
  },
  'GET /app/:app/endpoint/:endpoint/secret': {
    id: 'v1.endpoint.get-secret',
    summary: "Get an endpoint's signing secret",
    answers: { 200: EndpointSecretOut },
  },
})
