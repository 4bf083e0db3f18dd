import { listOf } from '../answers/field.ts'
import { RegionCreatedOut, RegionOut } from '../answers/region.ts'
import { PageQuery } from '../pagination.ts'
import { RegionIn } from '../schemas/region.ts'
import { tagged } from './operation.ts'

export const regionOperations = tagged('Region', {
  'GET /app/:app/region': {
    id: 'v1.region.list',
    summary: 'List regions',
    query: PageQuery,
    answers: { 200: listOf(RegionOut) },
  },
  'POST /app/:app/region': {
    id: 'v1.region.create',
    summary: 'Create a region',
    description:
      'Endpoints in a region get pseudonyms made with its secret: the same for the same value at the same endpoint, and unlike those of any other endpoint or region.',
    body: RegionIn,
    answers: { 201: RegionCreatedOut },
  },
  'DELETE /app/:app/region/:region': {
    id: 'v1.region.delete',
    summary: 'Delete a region',
    description: 'Refused while an endpoint is in it. Nobody can make its pseudonyms again without the secret.',
    answers: { 204: null },
  },
})
