import type { Dispatcher } from 'undici'
import type { EpochMs } from '../domain/clock.ts'
import type { Method } from '../domain/endpoint.ts'
import { unsendableAt, wireHeaders } from '../wire/headers.ts'
import { headerNames, type Signing, signerOf, signingBy } from '../wire/profile.ts'
import type { Origin } from './connection.ts'
import type { AddressPolicy } from './guard.ts'
import type { Parcel, Target } from './send.ts'
import { checkUrl, hostOf, portOf } from './url.ts'

/** All that attempts at one target have in common, worked out once. */
export interface PreparedLine {
  readonly origin: Origin
  readonly timeoutMs: number
  /** When the last secret expires, which the newest never does. From then on nothing may be sent, for want of a signature. */
  readonly signsUntil: EpochMs
  /**
   * The request for one parcel, signed as of `now`; a text instead when its head cannot be sent. It is the same object each
   * time: use it before asking again.
   */
  request(parcel: Parcel, now: EpochMs): Dispatcher.DispatchOptions | string
}

/** Prepares a target; a text instead, for people, when nothing may or can be sent to it. */
export function prepareLine(target: Target, policy: AddressPolicy, userAgent: string): PreparedLine | string {
  if (target.damaged) return 'The stored secret or headers of the endpoint cannot be opened; replace them.'
  const problems = checkUrl(target.url, policy)
  if (problems.length > 0) return problems.join(' ')
  const headers = wireHeaders(target.headers)
  if (headers === undefined) return 'One of the headers of the endpoint cannot be sent.'
  const profile = target.signature ?? 'standard'
  const signers = target.secrets.flatMap(({ secret, expiresAt }) => {
    const sign = signerOf(profile, secret)
    return sign ? [{ sign, expiresAt: expiresAt ?? Number.POSITIVE_INFINITY }] : []
  })
  if (signers.length === 0) return 'The endpoint has no usable secret to sign with.'

  const names = target.signatureHeaders ?? {}
  const signing = signingBy(profile, signers, names)
  const { id: idName } = headerNames(profile, names)
  const head = ['user-agent', userAgent, ...headers, ...[idName, ...signing.names].flatMap((name) => [name, ''])]
  if (unsendableAt(head) >= 0) return 'One of the headers that Sluice sets for the endpoint cannot be sent.'

  const url = new URL(target.url)
  return {
    origin: originOf(url),
    timeoutMs: target.timeoutMs,
    signsUntil: Math.max(...signers.map(({ expiresAt }) => expiresAt)),
    request: requestMaker(
      target.method ?? 'POST',
      url.pathname + url.search,
      ['user-agent', userAgent, ...headers],
      idName,
      signing,
    ),
  }
}

/**
 * Fills in one request object again and again. undici copies out of it before dispatch returns, so nothing is shared
 * between attempts, and an attempt allocates neither options nor a list of headers.
 */
function requestMaker(
  method: Method,
  path: string,
  ownHeaders: readonly string[],
  idName: string,
  signing: Signing,
): PreparedLine['request'] {
  // Whatever they are called, these are Sluice's to set.
  const reserved = new Set([idName, ...signing.names])
  const headers = [
    ...without(reserved, ownHeaders),
    // A compressed answer would be kept compressed: nothing is ever decoded.
    ...['accept-encoding', 'identity'],
    ...['content-type', '', idName, ''],
    ...signing.names.flatMap((name) => [name, '']),
  ]
  const contentTypeAt = headers.length - 2 * signing.names.length - 3
  const request = { path, method, headers, body: noBytes as Uint8Array, blocking: false }
  let second = 0
  let timestamp = '0'

  return (parcel, now) => {
    if (second !== Math.floor(now / 1000)) {
      second = Math.floor(now / 1000)
      timestamp = String(second)
    }
    headers[contentTypeAt] = parcel.contentType
    headers[contentTypeAt + 2] = parcel.id
    signing.values(headers, contentTypeAt + 4, parcel, timestamp, now)
    // The values before these are the endpoint's, and were checked when the line was prepared.
    const wrong = unsendableAt(headers, contentTypeAt)
    if (wrong >= 0) return `The header ${headers[wrong - 1]} of the message contains characters that cannot be sent.`
    request.body = parcel.body
    request.headers = parcel.headers ? withHeadersOf(parcel.headers, headers, reserved) : headers
    return request
  }
}

const noBytes = new Uint8Array(0)

/** A message's headers before those every message gets; an endpoint's of the same name give way. */
function withHeadersOf(
  own: Readonly<Record<string, string>>,
  headers: readonly string[],
  reserved: ReadonlySet<string>,
): string[] {
  // They were checked when the message was taken in; one that cannot be sent all the same is no reason not to send the rest.
  const flat = without(reserved, wireHeaders(own) ?? [])
  const names = new Set(flat.filter((_, i) => i % 2 === 0))
  return [...flat, ...without(names, headers)]
}

/** Headers, name after value, but for those of these names. */
function without(names: ReadonlySet<string>, flat: readonly string[]): string[] {
  return flat.filter((_, i) => !names.has(flat[i - (i % 2)] as string))
}

function originOf(url: URL): Origin {
  const host = hostOf(url)
  const port = portOf(url)
  const authority = host.includes(':') ? `[${host}]` : host
  return { key: `${url.protocol}//${authority}:${port}`, host, port, secure: url.protocol === 'https:' }
}
