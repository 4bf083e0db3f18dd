import { Type } from 'typebox'

/** A message or an endpoint has no more headers than this, in number and in bytes of all names and values together. */
export const headersLimit = 64
export const headerBytesLimit = 8192

export const headerValue = Type.String({ maxLength: 4096 })

/** Headers that are sent with deliveries, by name. */
export const Headers = Type.Record(Type.String(), headerValue, { maxProperties: headersLimit })

/** Headers with their names as they are kept. */
export function lowerCased<T>(headers: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(headers).map(([name, its]) => [name.toLowerCase(), its]))
}
