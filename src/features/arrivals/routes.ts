import { Type } from 'typebox'
import { text } from '../../operations/fields.ts'
import { anyBytes, type Incoming, type Noun, Reply, route, type Unread } from '../../operations/route.ts'
import type { ServiceDeps, Services } from '../../operations/services.ts'
import { baseOf } from '../sources/schemas.ts'
import { arrivalBytesLimit } from './service.ts'

const ArrivalOut = Type.Object({ id: text('Id of the message.') })

const expected = Type.Unsafe<string>({
  description: 'The answer that the provider expects, in its own content type.',
})

const bodyLimit = ({ bodyLimitBytes }: ServiceDeps) => Math.min(bodyLimitBytes, arrivalBytesLimit)

/** The two ways to name a source in its URL. */
const ways = [
  { name: 'source', path: '/ingress/:source', id: 'v1.arrival', how: 'by its id' },
  { name: 'token', path: '/in/:token', id: 'v1.arrival.by-token', how: 'by the token of its URL' },
] as const

export const arrivals = {
  tag: 'Arrival',
  description: 'Webhooks of other services on their way in. They carry no key; the source verifies them.',
  schemas: { ArrivalOut },
  routes: ways.flatMap(({ name, path, id, how }) => {
    const refOf = ({ params }: Pick<Incoming, 'params'>) => (params as Record<string, string>)[name] ?? ''
    const headOf = (request: Unread, services: Services) => {
      const { method, headers, url } = request
      return { method, url: baseOf(services, request) + url, headers }
    }
    const admit = (request: Unread, services: Services) =>
      services.arrivals.admit(refOf(request), headOf(request, services), request.address ?? '')
    const receive = async (request: Incoming, body: Uint8Array, services: Services) => {
      const arrival = { ...headOf(request, services), body }
      const answer = await services.arrivals.receive(refOf(request), arrival, request.address ?? '')
      return new Reply(answer.status as 200, answer.body, answer.headers)
    }
    return [
      route(`POST ${path}`, 'open', {
        root: '',
        id: `${id}.receive`,
        summary: `Take a webhook in at a source, ${how}`,
        description:
          'The answer comes after a commit that survives a power cut: 202, or 200 where the provider needs it. A request that is not verified is answered 401, an unknown or disabled source 404. The header `sluice-message-id` names the message.',
        body: anyBytes,
        bodyLimit,
        lookup: 'none',
        admit,
        answers: { 202: ArrivalOut, 200: expected },
        handle: ({ body, request }, services) => receive(request, body, services),
      }),
      route(`GET ${path}`, 'open', {
        root: '',
        id: `${id}.verify`,
        summary: `Answer the handshake of a provider that uses GET, ${how}`,
        lookup: 'none',
        admit,
        answers: { 200: expected },
        handle: ({ request }, services) => receive(request, new Uint8Array(0), services),
      }),
    ]
  }),
} satisfies Noun
