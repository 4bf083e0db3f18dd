import type { Coalesce } from '../domain/flow.ts'
import { valueAt } from '../json/pointer.ts'
import { textOf } from '../json/token.ts'
import type { Publication, Special } from '../store/store.ts'
import { digest } from './publication.ts'

const quote = 0x22

/** Bytes of bodies that are searched for one message: about 50 ms. A thousand different keys in 1 MiB would take seconds. */
const bytesLimit = 16 * 1024 * 1024

/** The fields of a message that decide whether it is coalesced. */
type Coalescable = Pick<Publication, 'eventType' | 'delayMs' | 'expiresInMs'>

/**
 * Returns a function that decides how a message is coalesced at an endpoint. A message is not coalesced (undefined) when
 * its payload lacks the key, when it has a delivery time of its own, when it expires within the window, or when the search
 * for keys would read too many bytes. Endpoints with the same key share one search.
 */
export function coalescing(
  { eventType, delayMs, expiresInMs = null }: Coalescable,
  body: Uint8Array,
): (rule: Coalesce) => NonNullable<Special['coalesce']> | undefined {
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
 * The key that coalescing messages share. Strings are compared after unescaping; other values by their bytes, because
 * numbers that differ may be the same double.
 */
function keyOf(eventType: string, body: Uint8Array, pointer: string | null): string | undefined {
  if (pointer === null) return digest(eventType, 'any')
  const span = valueAt(body, pointer)
  if (span === undefined) return undefined
  const { start, end } = span
  if (body[start] === quote) return digest(eventType, 'text', pointer, textOf(body, start, end))
  return digest(eventType, 'value', pointer, body.subarray(start, end))
}
