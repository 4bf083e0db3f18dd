import { valueAt } from '../../src/json/pointer.ts'
import { answer, refuse, retryAfter } from './answer.ts'
import { digestOfText, shardOf } from './digest.ts'
import type { Incoming } from './incoming.ts'
import type { CoalesceRoute, Env } from './route.ts'
import { attempted } from './storage.ts'
import { verified } from './verified.ts'

/**
 * Stores a delivery of Sluice until its window ends, in place of the delivery of its kind that waits there. The answer is
 * 202 once the delivery is on disk: from then on the edge has to bring the newest of the window to the receiver.
 */
export async function coalesce(route: CoalesceRoute, env: Env, incoming: Incoming): Promise<Response> {
  const delivery = await verified(route.verifier, incoming)
  if (delivery instanceof Response) return delivery
  const key = valueIn(incoming, route.key)
  const type = route.type === undefined ? '' : (valueIn(incoming, route.type) ?? '')
  // A delivery without a key is a kind of its own, and need not wait for others.
  const kind = key === undefined ? delivery.digest : await digestOfText(JSON.stringify([type, key]))
  const outbox = env.OUTBOX.getByName(`${route.name}/${shardOf(kind, route.shards)}`)
  const stored = await attempted(() =>
    outbox.put({
      route: route.name,
      kind,
      id: delivery.id,
      query: '',
      headers: incoming.headers,
      body: incoming.body,
      dueInMs: key === undefined ? 0 : route.windowMs,
    }),
  )
  switch (stored) {
    case undefined:
      return refuse('storage_unavailable', 'The storage of the window did not answer.', retryAfter(1000))
    case 'full':
      return refuse('full', 'Too many deliveries wait for the end of their windows.', retryAfter(route.windowMs))
    case 'superseded':
      return answer(202, 'superseded', { outcome: 'superseded', detail: 'A newer delivery of this kind waits.' })
    default:
      return answer(202, 'stored', { outcome: 'stored', detail: 'The newest of the window is forwarded at its end.' })
  }
}

/** The value of a header or, for a JSON pointer, the bytes of a value in the body. An empty value is none. */
function valueIn({ request, body }: Incoming, place: string): string | undefined {
  if (!place.startsWith('/')) return request.headers.get(place) || undefined
  const span = valueAt(body, place)
  return span && Buffer.from(body.buffer).toString('latin1', span.start, span.end)
}
