import { outcomeHeader, refuse } from './answer.ts'
import { readUpTo } from './read.ts'

/** A header by its lower-case name. */
export type HeaderPair = readonly [name: string, value: string]

/** A request that is within its bounds, with the bytes that came. */
export interface Incoming {
  readonly request: Request
  readonly body: Uint8Array<ArrayBuffer>
  /** The headers that may be forwarded: all but those of one connection and of Cloudflare. */
  readonly headers: readonly HeaderPair[]
}

const maxHeaders = 100
const maxHeaderBytes = 32_768
const bodyMs = 10_000

/**
 * Headers that belong to one connection, that fetch sets itself, or that Cloudflare adds. Content-Length and
 * Transfer-Encoding are never forwarded: the length of the forwarded request is that of the bytes that were verified.
 */
const dropped =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings|host|content-length|expect|accept-encoding|forwarded|x-forwarded-.*|x-real-ip|true-client-ip|cf-.*|cdn-loop|sluice-edge)$/

/** Reads a request within its bounds, or refuses it. The body is not read when the head is already too large. */
export async function readIncoming(request: Request, maxBodyBytes: number): Promise<Incoming | Response> {
  const all = [...request.headers]
  const headerBytes = all.reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0)
  if (all.length > maxHeaders || headerBytes > maxHeaderBytes) {
    return refuse('headers_too_large', `The request has ${all.length} headers of ${headerBytes} bytes.`)
  }
  if (request.headers.has(outcomeHeader)) return refuse('loop', 'The request was forwarded by an edge already.')
  const body = await readBody(request, maxBodyBytes)
  if (body instanceof Response) return body
  return { request, body, headers: forwardable(all) }
}

/** The headers that may be forwarded, without those that the Connection header names. */
function forwardable(all: readonly HeaderPair[]): HeaderPair[] {
  const named = all.filter(([name]) => name === 'connection').flatMap(([, value]) => value.toLowerCase().split(','))
  const ofConnection = new Set(named.map((name) => name.trim()))
  return all.filter(([name]) => !dropped.test(name) && !ofConnection.has(name))
}

async function readBody(request: Request, limit: number): Promise<Uint8Array<ArrayBuffer> | Response> {
  const tooLarge = () => refuse('body_too_large', `The body exceeds ${limit} bytes.`)
  if (Number(request.headers.get('content-length') ?? 0) > limit) return tooLarge()
  const { bytes, end } = await readUpTo(request.body, limit, bodyMs)
  switch (end) {
    case 'whole':
      return bytes
    case 'cut':
      return tooLarge()
    default:
      return refuse('slow_body', `The body broke off, or did not arrive within ${bodyMs / 1000} s.`)
  }
}
