import type { Source } from '../domain/source.ts'
import type { Arrival } from '../sources/arrival.ts'
import { isHeaderName, isSendable, isSensitiveHeader } from '../wire/headers.ts'

const headersLimit = 64
const headersBytesLimit = 8192
const valueLength = 2048

/** Headers of the connection, and of proxies, that say nothing about the event. */
const ofTransport =
  /^(accept|accept-encoding|cache-control|cdn-loop|cf-.*|connection|content-length|expect|forwarded|host|keep-alive|pragma|proxy-.*|te|trailer|transfer-encoding|upgrade|via|x-forwarded-.*|x-real-ip|x-request-start)$/

/** A signature proves who sent the body, and receivers may verify it again; it is no secret. */
function isSecret(name: string): boolean {
  return isSensitiveHeader(name) && !/signature/.test(name)
}

/**
 * The headers of an arrival that its message keeps, for header templates: without secrets, without those of the transport,
 * and at most 64 with 8 KiB in all. Null without any.
 */
export function arrivedHeaders(
  headers: Arrival['headers'],
  { provider, settings }: Pick<Source, 'provider' | 'settings'>,
): Readonly<Record<string, string>> | null {
  const secret = secretName(provider, settings)
  const kept: [string, string][] = []
  let bytes = 0
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string' || !isHeaderName(name) || !isSendable(value) || value.length > valueLength) continue
    if (isSecret(name) || ofTransport.test(name) || name === secret) continue
    bytes += name.length + value.length
    if (kept.length === headersLimit || bytes > headersBytesLimit) break
    kept.push([name, value])
  }
  return kept.length === 0 ? null : Object.fromEntries(kept)
}

/** The headers of a refused arrival, for its operator. Values of secrets and signatures are left out. */
export function sampledHeaders(headers: Arrival['headers']): Readonly<Record<string, string>> {
  const kept: [string, string][] = []
  let bytes = 0
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string' || !isHeaderName(name)) continue
    const shown = isSensitiveHeader(name) ? '***' : value.slice(0, 256)
    bytes += name.length + shown.length
    if (kept.length === headersLimit || bytes > headersBytesLimit / 2) break
    kept.push([name, shown])
  }
  return Object.fromEntries(kept)
}

/** The header that carries a secret of the source itself, whatever it is called. */
function secretName(provider: string, { name, header }: Source['settings']): string | undefined {
  const carrier = provider === 'token' ? name : provider === 'jwt' ? header : undefined
  return typeof carrier === 'string' ? carrier.toLowerCase() : undefined
}
