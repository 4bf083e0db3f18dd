import type { Coalesce } from '../domain/flow.ts'
import { textOf, valueAt } from '../json/value-at.ts'
import type { Publication, Special } from '../store/store.ts'
import { digest } from './publication.ts'

const quote = 0x22

/**
 * What is read of bodies for one message, about 50 ms: a thousand endpoints that each look in another place of a megabyte
 * would keep everybody waiting for seconds.
 */
const bytesLimit = 16 * 1024 * 1024

/** What of a message decides whether it is coalesced. */
type Coalescable = Pick<Publication, 'eventType' | 'delayMs' | 'expiresInMs'>

/**
 * Makes what says how one message's deliveries are coalesced, by each endpoint's wish; undefined for one that goes its own
 * way: because the payload has no such value, because it is for an instant of its own, because nobody wants it any more by
 * the end of the window, or because too many places in too large a body are to be looked at. Endpoints that go by the same
 * value share the work of finding it.
 */
export function coalescing(
  { eventType, delayMs, expiresInMs = null }: Coalescable,
  body: Uint8Array,
): (wish: Coalesce) => NonNullable<Special['coalesce']> | undefined {
  const keys = new Map<string | null, string | undefined>()
  let bytesLeft = bytesLimit
  return ({ key: pointer, windowMs }) => {
    if (delayMs > 0 || (expiresInMs !== null && expiresInMs <= windowMs)) return undefined
    if (!keys.has(pointer)) {
      if (pointer !== null) bytesLeft -= body.byteLength
      keys.set(pointer, pointer !== null && bytesLeft < 0 ? undefined : keyOf(eventType, body, pointer))
    }
    const key = keys.get(pointer)
    return key === undefined ? undefined : { key, windowMs }
  }
}

/**
 * What messages that coalesce have in common. Texts are compared by what they say, however they are escaped; anything
 * else by how it is written, so that no number is taken for another that a double cannot tell from it.
 */
function keyOf(eventType: string, body: Uint8Array, pointer: string | null): string | undefined {
  if (pointer === null) return digest(eventType, 'any')
  const span = valueAt(body, pointer)
  if (span === undefined) return undefined
  const { start, end } = span
  if (body[start] === quote) return digest(eventType, 'text', pointer, textOf(body, start, end))
  return digest(eventType, 'value', pointer, body.subarray(start, end))
}
