import type { Dispatcher } from 'undici'
import type { EpochMs } from '../domain/clock.ts'
import { type TraceContext, traceHeadersOf } from '../domain/trace-context.ts'
import type { SignatureFamily } from '../features/applications/noun.ts'
import { type ClientCertificate, type ClientCertificates, usableCertificates } from '../features/credentials/rules.ts'
import type { Method } from '../features/endpoints/rules.ts'
import { shownProxy } from '../wire/egress-proxy.ts'
import {
  contentTypeHeader,
  contentTypeIn,
  type HeaderTemplate,
  isContentTypeHeader,
  readTemplates,
  unsendableAt,
  unsendableValueAt,
  wireHeaders,
} from '../wire/headers.ts'
import { type Signing, signerOf, signingBy } from '../wire/profile.ts'
import { headerNames, signatureProfiles } from '../wire/receiver.ts'
import { KeptHeaders } from './answer.ts'
import type { Origin } from './connect.ts'
import type { Egress } from './egress.ts'
import { type AddressPolicy, hostOf, portOf, readUrl, urlProblems } from './guard.ts'
import type { OutgoingMessage, Target } from './send.ts'

/** The parts of a request that all attempts at a target share, computed once. */
export interface PreparedTarget {
  /** The origin without a client certificate. */
  readonly origin: Origin
  /** The client certificates; undefined without any. */
  readonly identities?: Identities | undefined
  readonly timeoutMs: number
  readonly connectTimeoutMs: number
  /** When the last secret expires, after which nothing can be signed; usually never. */
  readonly signsUntil: EpochMs
  readonly keptHeaders: KeptHeaders
  /**
   * The request for one message, signed as of `now`; a text instead when its head cannot be sent. Every call answers the
   * same object, filled in again.
   */
  request(message: OutgoingMessage, now: EpochMs, attempt: number): Dispatcher.DispatchOptions | string
}

/** The `authorization` header of requests. The header of an access token changes with the token. */
export interface Authorization {
  readonly header: string
}

/** Prepares a target; answers an error text when nothing may or can be sent to it. */
export function prepareTarget(
  target: Target,
  policy: AddressPolicy,
  userAgent: string,
  egress: Egress,
  family: SignatureFamily = 'webhook',
  authorization?: Authorization,
): PreparedTarget | string {
  if (target.damaged) {
    return 'The stored secret, headers or credentials of the endpoint cannot be opened; replace them.'
  }
  const url = readUrl(target.url)
  if (typeof url === 'string') return url
  const problems = urlProblems(url, policy)
  if (problems.length > 0) return problems.join(' ')
  const headers = wireHeaders(target.headers)
  if (headers === undefined) return 'One of the headers of the endpoint cannot be sent.'
  const templates = readTemplates(target.headerTemplates ?? {})
  if (templates === undefined) return 'One of the header templates of the endpoint cannot be sent.'
  const profile = target.signature ?? 'standard'
  const signers = target.secrets.flatMap(({ secret, expiresAt }) => {
    const sign = signerOf(profile, secret)
    return sign ? [{ sign, expiresAt: expiresAt ?? Number.POSITIVE_INFINITY }] : []
  })
  if (signers.length === 0) return 'The endpoint has no usable secret to sign with.'

  const signing = signingBy(profile, signers, target.signatureHeaders ?? family)
  const form = { method: target.method ?? 'POST', userAgent, headers, templates, names: signing.names, authorization }
  const head = headOf({ ...form, endpointId: target.endpointId })
  if (head === undefined) return 'One of the headers that Sluice sets for the endpoint cannot be sent.'

  const origin = originOf(url, egress, target)
  if (typeof origin === 'string') return origin
  const certificates = target.clientCertificates ?? []
  // Without TLS nothing would show that the endpoint has a certificate.
  if (certificates.length > 0 && !origin.secure)
    return 'The endpoint has a client certificate, but its URL is not https.'
  return {
    origin,
    identities: certificates.length === 0 ? undefined : new Identities(origin, certificates),
    timeoutMs: target.timeoutMs,
    connectTimeoutMs: Math.min(target.connectTimeoutMs ?? target.timeoutMs, target.timeoutMs),
    signsUntil: signers.reduce((until, { expiresAt }) => Math.max(until, expiresAt), 0),
    keptHeaders: new KeptHeaders(),
    request: requestMaker(head, url.pathname + url.search, signing, authorization),
  }
}

/** The parts of a target that its request's head is made from. */
interface HeadForm {
  readonly method: Method
  readonly userAgent: string
  /** The endpoint's own headers. */
  readonly headers: readonly string[]
  readonly templates: readonly HeaderTemplate[]
  /** The names of the headers of the signature. */
  readonly names: readonly string[]
  readonly authorization?: Authorization | undefined
  readonly endpointId?: string | undefined
}

/** One request object, filled in for every attempt, and the places in it that change. */
interface Head {
  readonly request: Dispatcher.DispatchOptions & { path: string; headers: string[] | null; body: Uint8Array | null }
  readonly hasBody: boolean
  readonly headers: string[]
  /** Names that only Sluice sets, in lower case. */
  readonly reserved: ReadonlySet<string>
  readonly templating: Templating
  readonly signedAt: number
  readonly contentTypeAt: number
  /** The endpoint's own content type. */
  readonly contentType: string | undefined
  readonly firstAt: number
  readonly authorizationAt: number
  /** The second of the last request, and its text. */
  second: number
  timestamp: string
}

/**
 * The heads of targets that set no header of their own, which are nearly all: they differ by the method and the names of the
 * signature alone. Most lanes that are claimed make one request, for which a head of its own is too much.
 */
const plainHeads = new Map<string, Head | undefined>()

/** The head of a target's requests; undefined when it cannot be sent. */
function headOf(form: HeadForm): Head | undefined {
  const { headers, templates, authorization, method, userAgent, names } = form
  if (headers.length > 0 || templates.length > 0 || authorization !== undefined) return makeHead(form)
  if (names.some((name) => !usualNames.has(name))) return makeHead(form)
  const key = [method, userAgent, ...names].join('\n')
  if (!plainHeads.has(key)) plainHeads.set(key, makeHead(form))
  return plainHeads.get(key)
}

/** Names of an application's own are as many as applications, and are not kept. */
const usualNames: ReadonlySet<string> = new Set(
  signatureProfiles.flatMap((profile) =>
    headerNames(profile, 'both').flatMap(({ id, timestamp, signature }) => [id, timestamp, signature]),
  ),
)

function makeHead({ method, userAgent, headers, templates, names, authorization, endpointId }: HeadForm) {
  const sent = ['user-agent', userAgent, ...headers, ...names.flatMap((name) => [name, ''])]
  if (unsendableAt(sent) >= 0) return undefined
  const signatureNames = [...names, ...(authorization ? ['authorization'] : [])]
  const templating = templatingOf(templates, headers, signatureNames, endpointId)
  // Only Sluice sets these, under any name that the endpoint gives them.
  const reserved = new Set([contentTypeHeader, ...signatureNames.map((name) => name.toLowerCase())])
  const typeAt = headers.findIndex((name, i) => i % 2 === 0 && isContentTypeHeader(name))
  const hasBody = method !== 'GET'
  const list = [
    ...without(templating.names, ['user-agent', userAgent]),
    ...without(reserved, headers),
    ...(authorization ? ['authorization', authorization.header] : []),
    // A compressed answer would be kept compressed: nothing is ever decoded.
    ...['accept-encoding', 'identity'],
    ...templating.list,
    ...(hasBody ? [contentTypeHeader, ''] : []),
    ...names.flatMap((name) => [name, '']),
  ]
  const signedAt = list.length - 2 * names.length + 1
  const contentTypeAt = signedAt - 2
  const firstAt = (hasBody ? contentTypeAt : signedAt) - templating.list.length
  return {
    request: { path: '', method, headers: list, body: null, blocking: false },
    ...{ hasBody, headers: list, reserved, templating, signedAt, contentTypeAt, firstAt },
    contentType: typeAt < 0 ? undefined : headers[typeAt + 1],
    // Its value stands before accept-encoding, which stands before the names and values that change.
    authorizationAt: firstAt - 4,
    second: 0,
    timestamp: '0',
  }
}

/**
 * Fills in one request object for every attempt. undici copies from it before dispatch returns, so attempts share nothing
 * and allocate neither options nor a list of headers.
 */
function requestMaker(
  head: Head,
  path: string,
  signing: Signing,
  authorization?: Authorization,
): PreparedTarget['request'] {
  const {
    request,
    hasBody,
    headers,
    reserved,
    templating,
    signedAt,
    contentTypeAt,
    contentType,
    firstAt,
    authorizationAt,
  } = head
  return (message, now, attempt) => {
    if (head.second !== Math.floor(now / 1000)) {
      head.second = Math.floor(now / 1000)
      head.timestamp = String(head.second)
    }
    const { timestamp } = head
    if (templating.list.length > 0) templating.fill(headers, firstAt, message, attempt, timestamp)
    if (hasBody) headers[contentTypeAt] = contentTypeOf(message, contentType)
    if (authorization) headers[authorizationAt] = authorization.header
    signing.values(headers, signedAt, hasBody ? message : { id: message.id, body: noBytes }, timestamp, now)
    // The names, and the values before these, were checked when the target was prepared.
    const wrong = unsendableValueAt(headers, firstAt)
    if (wrong >= 0) return `The header ${headers[wrong - 1]} of the message contains characters that cannot be sent.`
    request.path = path
    if (hasBody) request.body = message.body
    request.headers = message.headers ? withHeadersOf(message.headers, headers, reserved) : headers
    if (message.propagated !== undefined) request.headers = withTrace(request.headers, message.propagated)
    return request
  }
}

/** The content type of a request: the message's own header, the endpoint's, or the one that the message was published with. */
function contentTypeOf({ headers, contentType }: OutgoingMessage, ofEndpoint: string | undefined): string {
  return (headers && contentTypeIn(headers)) ?? ofEndpoint ?? contentType
}

/** The headers that templates make: names, known in advance, and values, made per attempt. */
interface Templating {
  /** Names and empty values in turn. */
  readonly list: readonly string[]
  /** The names in lower case. */
  readonly names: ReadonlySet<string>
  /** Puts the values of one request into every second place of a list, from `at` on. */
  fill(list: string[], at: number, message: OutgoingMessage, attempt: number, timestamp: string): void
}

/** Templates give way to the endpoint's own headers and to those of the signature. */
function templatingOf(
  all: readonly HeaderTemplate[],
  headers: readonly string[],
  signatureNames: readonly string[],
  endpointId = '',
): Templating {
  const taken = [...headers.filter((_, i) => i % 2 === 0), ...signatureNames].map((name) => name.toLowerCase())
  const templates = all.filter(({ name }) => !taken.includes(name.toLowerCase()))
  return {
    list: templates.flatMap(({ name }) => [name, '']),
    names: new Set(templates.map(({ name }) => name.toLowerCase())),
    fill(list, at, { id: messageId, eventType = '', arrivedHeaders = null }, attempt, timestamp) {
      const deliveryId = `${messageId}.${endpointId}`
      const values = { eventType, attempt, deliveryId, messageId, endpointId, timestamp }
      for (const [i, template] of templates.entries()) list[at + 2 * i] = template.fill(values, arrivedHeaders)
    },
  }
}

/** The body that a GET signs: receivers verify the bytes that they get. */
const noBytes = new Uint8Array(0)

/** Puts a message's headers first; they replace the endpoint's of the same name. */
function withHeadersOf(
  own: Readonly<Record<string, string>>,
  headers: readonly string[],
  reserved: ReadonlySet<string>,
): string[] {
  // They were checked at publish. If they cannot be sent all the same, the message is sent without them.
  const flat = without(reserved, wireHeaders(own) ?? [])
  const names = new Set(flat.flatMap((name, i) => (i % 2 === 0 ? [name.toLowerCase()] : [])))
  return [...flat, ...without(names, headers)]
}

/** Adds the headers of a trace; they replace the endpoint's and the message's of these names. */
function withTrace(headers: readonly string[], context: TraceContext): string[] {
  const { traceparent, tracestate } = traceHeadersOf(context)
  const state = tracestate === null ? [] : ['tracestate', tracestate]
  return [...without(traceNames, headers), 'traceparent', traceparent, ...state]
}

const traceNames: ReadonlySet<string> = new Set(['traceparent', 'tracestate'])

/** Headers, each name followed by its value, except those with these names in lower case. */
function without(names: ReadonlySet<string>, flat: readonly string[]): string[] {
  return flat.filter((_, i) => !names.has((flat[i - (i % 2)] as string).toLowerCase()))
}

/** The origin of a URL, without a client certificate; an error text when its egress proxy does not exist. */
export function originOf(url: URL, egress: Egress, { egressProxy, region }: Partial<Target> = {}): Origin | string {
  const host = hostOf(url)
  const proxy = egress.proxyOf(host, egressProxy, region)
  if (typeof proxy === 'string') return proxy
  const port = portOf(url)
  const authority = host.includes(':') ? `[${host}]` : host
  const base = `${url.protocol}//${authority}:${port}`
  const origin = { key: base, url: base, host, port, secure: url.protocol === 'https:' }
  return proxy === null ? origin : { ...origin, key: `${base} ${shownProxy(proxy)}`, proxy }
}

/** A receiver that refused a certificate is not shown it for this long, while another one can be used. */
const refusedMs = 60_000

/**
 * The client certificates of a target, as an origin for each. While two overlap, the older one is shown to a receiver
 * that refuses the newer one.
 */
class Identities {
  readonly #certificates: ClientCertificates
  readonly #origins: ReadonlyMap<ClientCertificate, Origin>
  #refused: Origin | undefined
  #refusedUntil: EpochMs = 0

  constructor(plain: Origin, certificates: ClientCertificates) {
    this.#certificates = certificates
    this.#origins = new Map(
      certificates.map((each) => [
        each,
        {
          ...plain,
          key: `${plain.key}#${each.fingerprint}`,
          identity: { certificate: each.certificate, key: each.key },
        },
      ]),
    )
  }

  /** The origins of all certificates. */
  get all(): Iterable<Origin> {
    return this.#origins.values()
  }

  /** The origin to connect to now. */
  origin(now: EpochMs): Origin {
    const usable = this.#usable(now)
    const isRefused = now < this.#refusedUntil
    const found = usable.find((each) => !isRefused || each !== this.#refused) ?? usable[0]
    // The last certificate is never replaced, so there is always one.
    return found as Origin
  }

  /** The receiver refused the certificate of an origin, or may have: the origin to try instead, if there is another. */
  refuse(origin: Origin, now: EpochMs): Origin | undefined {
    const other = this.#usable(now).find((each) => each !== origin)
    if (other === undefined) return undefined
    this.#refused = origin
    this.#refusedUntil = now + refusedMs
    return other
  }

  #usable(now: EpochMs): Origin[] {
    return usableCertificates(this.#certificates, now).map((each) => this.#origins.get(each) as Origin)
  }
}
