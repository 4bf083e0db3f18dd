import { type Static, Type } from 'typebox'
import { isSensitiveHeader, mergedHeaders } from '../../wire/headers.ts'
import { headerProblems } from '../endpoint-problems.ts'
import { described, Headers, headersLimit, headerValue, Labels, nullable } from '../fields.ts'
import { found, refuseDamaged } from '../lookup.ts'
import { type Out, route } from '../route.ts'
import { refuseIf } from '../validate.ts'
import type { Place } from './endpoints.ts'

export const EndpointHeadersIn = Type.Object({
  headers: described(
    Headers,
    'Headers of every attempt. The values of headers whose names mark them as secrets are never shown again.',
  ),
})

/** Changes some headers: null, or being named in `deleteHeaders`, removes one. */
export const EndpointHeadersPatchIn = Type.Object({
  headers: Type.Optional(
    Type.Record(Type.String(), nullable(headerValue), {
      maxProperties: headersLimit,
      description:
        'Headers of every attempt. The values of headers whose names mark them as secrets are never shown again.',
    }),
  ),
  deleteHeaders: Type.Optional(
    Type.Array(Type.String(), { maxItems: headersLimit, description: 'Names of headers to remove.' }),
  ),
})

export const EndpointHeadersOut = Type.Object({
  headers: described(
    Labels,
    'Headers of every attempt. The values of headers whose names mark them as secrets are never shown again.',
  ),
  sensitive: Type.Array(Type.String(), { description: 'The names of those whose values are not shown' }),
})

/** Shows only the names of headers that are secrets. */
function toHeadersOut(headers: Readonly<Record<string, string>>): Out<typeof EndpointHeadersOut> {
  const entries = Object.entries(headers)
  return {
    headers: Object.fromEntries(entries.filter(([name]) => !isSensitiveHeader(name))),
    sensitive: entries.map(([name]) => name).filter(isSensitiveHeader),
  }
}

function patchedHeaders(
  before: Readonly<Record<string, string>>,
  { headers = {}, deleteHeaders = [] }: Static<typeof EndpointHeadersPatchIn>,
): Record<string, string> {
  const removed = new Set(deleteHeaders.map((name) => name.toLowerCase()))
  const kept = Object.entries(mergedHeaders<string | null>(before, headers)).filter(
    (entry): entry is [string, string] => entry[1] !== null && !removed.has(entry[0].toLowerCase()),
  )
  return Object.fromEntries(kept)
}

const tooManyHeaders = {
  at: ['body', 'headers'],
  message: `must not bring an endpoint to more than ${headersLimit} headers`,
  type: 'maxProperties',
}

/** The headers that go out with every delivery of an endpoint. */
export function endpointHeaderRoutes({ path, root, id, needs }: Place) {
  const headersPath = `${path}/:endpoint/headers` as const
  return [
    route({
      method: 'GET',
      path: headersPath,
      root,
      need: needs.view,
      id: `${id}.get-headers`,
      summary: 'Get the headers that go out with every delivery',
      answers: { 200: EndpointHeadersOut },
      handle: ({ endpoint }) => {
        refuseDamaged(endpoint, 'headers')
        return toHeadersOut(endpoint.headers)
      },
    }),
    route({
      method: 'PUT',
      path: headersPath,
      root,
      need: needs.manage,
      id: `${id}.update-headers`,
      summary: 'Replace the headers that go out with every delivery',
      body: EndpointHeadersIn,
      answers: { 204: null },
      handle: async ({ endpoint, params, body: { headers } }, { store }) => {
        refuseIf(headerProblems(headers))
        const changed = await store.updateEndpoint(endpoint.app, endpoint.key, { headers: mergedHeaders(headers) })
        found(changed, 'endpoint', params.endpoint)
      },
    }),
    route({
      method: 'PATCH',
      path: headersPath,
      root,
      need: needs.manage,
      id: `${id}.patch-headers`,
      summary: 'Change some of the headers that go out with every delivery',
      description: 'A header with null, or named in `deleteHeaders`, is removed.',
      body: EndpointHeadersPatchIn,
      answers: { 204: null },
      handle: async ({ endpoint, params, body }, { store }) => {
        refuseIf(headerProblems(patchedHeaders({}, { headers: body.headers ?? {} })))
        const changed = await store.updateEndpoint(endpoint.app, endpoint.key, (before) => {
          refuseDamaged(before, 'headers')
          const headers = patchedHeaders(before.headers, body)
          if (Object.keys(headers).length > headersLimit) refuseIf([tooManyHeaders])
          refuseIf(headerProblems(headers))
          return { headers }
        })
        found(changed, 'endpoint', params.endpoint)
      },
    }),
  ]
}
