import { Type } from 'typebox'
import { type Noun, route } from '../route.ts'

export const reference: Noun = {
  tag: 'Reference',
  description: 'This document.',
  routes: [
    route({
      method: 'GET',
      path: '/openapi.json',
      need: 'open',
      id: 'v1.openapi.get',
      summary: 'Get this reference as an OpenAPI 3.1 document',
      answers: { 200: Type.Object({}, { additionalProperties: true }) },
      handle: (_call, { reference }) => reference(),
    }),
  ],
}
