import { Type } from 'typebox'
import { type Noun, Reply, route } from '../../operations/route.ts'

export const reference = {
  tag: 'Reference',
  description: 'This document.',
  routes: [
    route('GET /openapi.json', 'open', {
      id: 'v1.openapi.get',
      summary: 'Get this reference as an OpenAPI 3.1 document',
      answers: { 200: Type.Object({}, { additionalProperties: true }) },
      handle: async ({ request }, { reference }) => {
        const { bytes, encoding } = await reference.for(request.headers['accept-encoding'])
        const encoded = encoding === undefined ? {} : { 'content-encoding': encoding }
        // Without a charset: tools, the Python SDK of Svix among them, compare the type as a whole.
        return new Reply(200, bytes, { 'content-type': 'application/json', vary: 'accept-encoding', ...encoded })
      },
    }),
  ],
} satisfies Noun
