import { EventTypeImportOpenApiOut, EventTypeOut } from '../answers/event-type.ts'
import { listOf } from '../answers/field.ts'
import {
  EventTypeDeleteQuery,
  EventTypeImportIn,
  EventTypeIn,
  EventTypePatch,
  EventTypePut,
  EventTypeQuery,
} from '../schemas/event-type.ts'
import { tagged } from './operation.ts'

export const eventTypeOperations = tagged('Event Type', {
  'GET /event-type': {
    id: 'v1.event-type.list',
    summary: 'List event types',
    description: 'By name. Schemas come only with `with_content`.',
    query: EventTypeQuery,
    answers: { 200: listOf(EventTypeOut) },
  },
  'POST /event-type': {
    id: 'v1.event-type.create',
    summary: 'Create an event type',
    description: 'One that was archived comes back.',
    body: EventTypeIn,
    answers: { 201: EventTypeOut },
  },
  'GET /event-type/:name': {
    id: 'v1.event-type.get',
    summary: 'Get an event type',
    answers: { 200: EventTypeOut },
  },
  'PUT /event-type/:name': {
    id: 'v1.event-type.update',
    summary: 'Replace an event type, or create it',
    body: EventTypePut,
    answers: { 200: EventTypeOut, 201: EventTypeOut },
  },
  'PATCH /event-type/:name': {
    id: 'v1.event-type.patch',
    summary: 'Change some fields of an event type',
    description: 'What is absent stays; null unsets.',
    body: EventTypePatch,
    answers: { 200: EventTypeOut },
  },
  'DELETE /event-type/:name': {
    id: 'v1.event-type.delete',
    summary: 'Archive an event type, or delete it',
    description: 'With `expunge` it is gone; without, it is hidden until somebody creates it again.',
    query: EventTypeDeleteQuery,
    answers: { 204: null },
  },
  'POST /event-type/import/openapi': {
    id: 'v1.event-type.import-openapi',
    summary: 'Import event types from the webhooks of an OpenAPI document',
    body: EventTypeImportIn,
    answers: { 200: EventTypeImportOpenApiOut },
  },
})
