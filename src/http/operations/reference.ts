import { Type } from 'typebox'
import { tagged } from './operation.ts'

export const referenceOperations = tagged('Reference', {
  'GET /openapi.json': {
    id: 'v1.openapi.get',
    summary: 'Get this reference as an OpenAPI 3.1 document',
    answers: { 200: Type.Object({}, { additionalProperties: true }) },
    open: true,
  },
})
