import type { Source } from '../domain/source.ts'
import type { Arrival } from '../sources/arrival.ts'
import { isProviderName } from '../sources/providers.ts'
import { isSignatureHeader, proofHeader } from '../sources/settings.ts'
import { isHeaderName, isSendable, isSensitiveHeader } from '../wire/headers.ts'

/** A source as far as the name of the header goes that proves its sender. */
type NamedProof = Pick<Source, 'provider' | 'settings'>

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
  source: NamedProof,
): Readonly<Record<string, string>> | null {
  const secret = source.provider === 'hmac' ? undefined : proofOf(source)
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
export function sampledHeaders(headers: Arrival['headers'], source: NamedProof): Readonly<Record<string, string>> {
  const proof = proofOf(source)
  const kept: [string, string][] = []
  let bytes = 0
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string' || !isHeaderName(name)) continue
    const shown = isSensitiveHeader(name) || isSignatureHeader(name) || name === proof ? '***' : value.slice(0, 256)
    bytes += name.length + shown.length
    if (kept.length === headersLimit || bytes > headersBytesLimit / 2) break
    kept.push([name, shown])
  }
  return Object.fromEntries(kept)
}

/** The header that carries the token or the signature, where the source itself gives its name. */
function proofOf({ provider, settings }: NamedProof): string | undefined {
  return isProviderName(provider) ? proofHeader(provider, settings) : undefined
}
