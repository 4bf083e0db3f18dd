import { type Static, Type } from 'typebox'
import { isSensitiveHeader } from '../../domain/sensitive-header.ts'
import { nullable } from './field.ts'

/** A message or an endpoint has no more headers than this, in number and in bytes of all names and values together. */
export const headersLimit = 64
export const headerBytesLimit = 8192

const value = Type.String({ maxLength: 4096 })

/** Headers that are sent with deliveries, by name. */
export const Headers = Type.Record(Type.String(), value, { maxProperties: headersLimit })

/** What replaces an endpoint's headers. */
export const EndpointHeadersIn = Type.Object({ headers: Headers })
export type EndpointHeadersIn = Static<typeof EndpointHeadersIn>

/** What changes some of an endpoint's headers: null, or being named in `deleteHeaders`, removes one. */
export const EndpointHeadersPatch = Type.Object({
  headers: Type.Optional(Type.Record(Type.String(), nullable(value), { maxProperties: headersLimit })),
  deleteHeaders: Type.Optional(Type.Array(Type.String(), { maxItems: headersLimit })),
})
export type EndpointHeadersPatch = Static<typeof EndpointHeadersPatch>

/** Headers with their names as they are kept. */
export function lowerCased<T>(headers: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(headers).map(([name, its]) => [name.toLowerCase(), its]))
}

/** The headers after a change. */
export function patchedHeaders(
  before: Readonly<Record<string, string>>,
  { headers = {}, deleteHeaders = [] }: EndpointHeadersPatch,
): Record<string, string> {
  const removed = new Set(deleteHeaders.map((name) => name.toLowerCase()))
  const kept = Object.entries({ ...before, ...lowerCased(headers) }).filter(
    (entry): entry is [string, string] => entry[1] !== null && !removed.has(entry[0]),
  )
  return Object.fromEntries(kept)
}

/** An endpoint's headers as callers see them: of those that are secrets, the names alone. */
export function toHeadersOut(headers: Readonly<Record<string, string>>) {
  const entries = Object.entries(headers)
  return {
    headers: Object.fromEntries(entries.filter(([name]) => !isSensitiveHeader(name))),
    sensitive: entries.map(([name]) => name).filter(isSensitiveHeader),
  }
}
