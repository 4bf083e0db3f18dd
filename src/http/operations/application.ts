import { ApplicationOut } from '../answers/application.ts'
import { listOf } from '../answers/field.ts'
import { PageQuery } from '../page.ts'
import { CreateQuery } from '../routes/application.ts'
import { ApplicationIn, ApplicationPatch } from '../schemas/application.ts'
import { tagged } from './operation.ts'

export const applicationOperations = tagged('Application', {
  'GET /app': {
    id: 'v1.application.list',
    summary: 'List applications',
    query: PageQuery,
    answers: { 200: listOf(ApplicationOut) },
  },
  'POST /app': {
    id: 'v1.application.create',
    summary: 'Create an application',
    description: 'With `get_if_exists`, an application that already has the uid is answered with 200.',
    query: CreateQuery,
    body: ApplicationIn,
    answers: { 200: ApplicationOut, 201: ApplicationOut },
  },
  'GET /app/:app': {
    id: 'v1.application.get',
    summary: 'Get an application',
    answers: { 200: ApplicationOut },
  },
  'PUT /app/:app': {
    id: 'v1.application.update',
    summary: 'Replace an application, or create it',
    description: 'What is absent goes back to its default; the uid stays.',
    body: ApplicationIn,
    answers: { 200: ApplicationOut, 201: ApplicationOut },
  },
  'PATCH /app/:app': {
    id: 'v1.application.patch',
    summary: 'Change some fields of an application',
    description: 'What is absent stays; null unsets.',
    body: ApplicationPatch,
    answers: { 200: ApplicationOut },
  },
  'DELETE /app/:app': {
    id: 'v1.application.delete',
    summary: 'Delete an application with its endpoints',
    description: 'Deliveries that have not ended are cancelled, and the uid is free again.',
    answers: { 204: null },
  },
})
