import type { FastifyInstance } from 'fastify'
import type { Attempt, Message } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { decodeKey } from '../../domain/ids.ts'
import type { HttpContext } from '../context.ts'
import { getMessage } from '../lookup.ts'
import { PageQuery, pageOver, paginate } from '../pagination.ts'
import { AttemptQuery, destinationStatus, fail, success, toAttemptOut } from '../schemas/attempt.ts'
import { toEndpointOut } from '../schemas/endpoint.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

interface OfMessage {
  Params: { app: string; message: string }
}

const pageProblems = compile(PageQuery, 'query')
const attemptProblems = compile(AttemptQuery, 'query')

/** What became of a message: its attempts, and where it stands at each endpoint. */
export function attemptRoutes(api: FastifyInstance, { store }: HttpContext): void {
  api.get<OfMessage>('/app/:app/attempt/msg/:message', async (request) => {
    const query = readQuery(AttemptQuery, request.query)
    refuseIf(attemptProblems(query))
    const message = await getMessage(store, request.params.app, request.params.message)
    const filter = query as AttemptQuery
    const { attempts, endpoints } = await historyOf(message)
    const kept = attempts.filter((attempt) => meets(attempt, message, endpoints.get(attempt.endpoint), filter))
    const toOut = (attempt: Attempt) =>
      toAttemptOut(attempt, message, endpoints.get(attempt.endpoint), filter.with_content ?? true)
    return paginate('atmpt', filter, 'descending', pageOver(kept, keyOf), toOut)
  })

  api.get<OfMessage>('/app/:app/msg/:message/endpoint', async (request) => {
    const query = readQuery(PageQuery, request.query)
    refuseIf(pageProblems(query))
    const message = await getMessage(store, request.params.app, request.params.message)
    const { attempts, endpoints } = await historyOf(message)
    const latest = new Map<number, Attempt>()
    for (const attempt of attempts)
      if (attempt.n > (latest.get(attempt.endpoint)?.n ?? 0)) latest.set(attempt.endpoint, attempt)
    const destinations = [...endpoints.values()].sort((a, b) => a.key - b.key)
    const toOut = (endpoint: Endpoint) => ({
      ...toEndpointOut(endpoint),
      ...destinationStatus(latest.get(endpoint.key)),
    })
    return paginate(
      'ep',
      query as PageQuery,
      'ascending',
      pageOver(destinations, ({ key }) => key),
      toOut,
    )
  })

  /** A message's attempts, oldest first, and the endpoints it was accepted for. */
  async function historyOf(message: Message): Promise<{ attempts: Attempt[]; endpoints: Map<number, Endpoint> }> {
    const [attempts, endpoints] = await Promise.all([
      store.attemptsOf(message.key),
      store.loadEndpoints(message.endpoints),
    ])
    return {
      attempts: attempts.sort((a, b) => keyOf(a) - keyOf(b)),
      endpoints: new Map(endpoints.map((endpoint) => [endpoint.key, endpoint])),
    }
  }
}

function keyOf(attempt: Attempt): number {
  return decodeKey('atmpt', attempt.id) ?? 0
}

function meets(attempt: Attempt, message: Message, endpoint: Endpoint | undefined, filter: AttemptQuery): boolean {
  const { status, status_code_class: statusClass, endpoint_id: ref, channel, event_types: eventTypes } = filter
  if (status !== undefined && status !== (attempt.code === 'delivered' ? success : fail)) return false
  if (statusClass !== undefined && statusClass !== Math.floor(attempt.status / 100) * 100) return false
  if (ref !== undefined && endpoint?.id !== ref && endpoint?.uid !== ref) return false
  if (channel !== undefined && !message.channels?.includes(channel)) return false
  if (eventTypes !== undefined && !eventTypes.split(',').includes(message.eventType)) return false
  if (filter.before !== undefined && attempt.at >= Date.parse(filter.before)) return false
  return filter.after === undefined || attempt.at > Date.parse(filter.after)
}
