import { createHash, createPrivateKey, type KeyObject, sign } from 'node:crypto'
import type { EpochMs } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { OAuth2 } from '../features/credentials/rules.ts'
import { KeptHeaders } from './answer.ts'
import type { Egress } from './egress.ts'
import { type AddressPolicy, checkUrl } from './guard.ts'
import type { Target } from './send.ts'
import { originOf, type PreparedTarget } from './target.ts'

/** An access token, and for how long its server says it is good; undefined when it does not say. */
export interface TokenAnswer {
  readonly token: string
  readonly lifetimeMs: number | undefined
}

/** Why a token endpoint gave no token, as a sentence. */
export interface TokenProblem {
  readonly message: string
  /** The wait that its Retry-After asks for. */
  readonly retryAfterMs?: number | undefined
}

/** The bytes of an answer of a token endpoint that are read. */
export const tokenAnswerBytes = 64 * 1024
const longestToken = 8192
const assertionSeconds = 60
const form = 'application/x-www-form-urlencoded'

/**
 * Prepares token requests, which are attempts as deliveries are: the same guard, deadlines and limits apply. Answers an
 * error text when none may or can be sent.
 */
export function prepareTokenRequest(
  auth: OAuth2,
  policy: AddressPolicy,
  { userAgent, timeoutMs, randomText, egress, route }: TokenRequestContext,
): PreparedTarget | string {
  const problems = checkUrl(auth.tokenUrl, policy)
  if (problems.length > 0) return problems.join(' ')
  const url = new URL(auth.tokenUrl)
  const origin = originOf(url, egress, route)
  if (typeof origin === 'string') return origin
  let key: KeyObject | undefined
  try {
    key = auth.method === 'private_key_jwt' ? createPrivateKey(auth.secret) : undefined
  } catch {
    return 'The private key of the client cannot be read.'
  }
  const { authorization, fields } = proofOf(auth)
  const common = ['user-agent', userAgent, 'accept', 'application/json', 'accept-encoding', 'identity']
  const headers = [...common, 'content-type', form, ...authorization]
  return {
    origin,
    // The same shape as that of a delivery, for the sake of the attempts that read both.
    identities: undefined,
    timeoutMs,
    connectTimeoutMs: timeoutMs,
    signsUntil: Number.POSITIVE_INFINITY,
    keptHeaders: new KeptHeaders(),
    request(_message, now) {
      const body = new URLSearchParams({
        grant_type: 'client_credentials',
        ...fields,
        ...(key !== undefined && { client_assertion: assertion(auth, key, now, randomText(22)) }),
        ...(auth.scope !== null && { scope: auth.scope }),
        ...(auth.audience !== null && { audience: auth.audience }),
      })
      const options = { path: url.pathname + url.search, method: 'POST', headers, blocking: false } as const
      return { ...options, body: Buffer.from(body.toString()) }
    },
  }
}

interface TokenRequestContext {
  readonly userAgent: string
  readonly timeoutMs: number
  readonly randomText: RandomText
  readonly egress: Egress
  /** The endpoint's choice of a proxy, and its region. */
  readonly route: Pick<Target, 'egressProxy' | 'region'>
}

/** The parts of a token request that prove the client, without the assertion. */
function proofOf({ method, clientId, secret }: OAuth2): { authorization: string[]; fields: Record<string, string> } {
  if (method === 'client_secret_basic') {
    // RFC 6749 2.3.1: both are form-encoded before they are joined.
    const credentials = `${formEncoded(clientId)}:${formEncoded(secret)}`
    return { authorization: ['authorization', `Basic ${Buffer.from(credentials).toString('base64')}`], fields: {} }
  }
  if (method === 'client_secret_post') {
    return { authorization: [], fields: { client_id: clientId, client_secret: secret } }
  }
  const type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
  return { authorization: [], fields: { client_id: clientId, client_assertion_type: type } }
}

function formEncoded(text: string): string {
  return new URLSearchParams({ text }).toString().slice('text='.length)
}

/** A signed assertion (RFC 7523): a JWT that the token endpoint takes once, within a minute. */
function assertion(auth: OAuth2, key: KeyObject, now: EpochMs, id: string): string {
  const { alg, digest } = algorithmOf(key)
  const issuedAt = Math.floor(now / 1000)
  const header = { alg, typ: 'JWT', ...(auth.keyId !== null && { kid: auth.keyId }) }
  const claims = {
    iss: auth.clientId,
    sub: auth.clientId,
    aud: auth.tokenUrl,
    jti: id,
    iat: issuedAt,
    exp: issuedAt + assertionSeconds,
  }
  const signed = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  const signature = sign(digest, Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' })
  return `${signed}.${signature.toString('base64url')}`
}

/** The algorithm of an assertion, by the kind of the key. */
function algorithmOf(key: KeyObject): { readonly alg: string; readonly digest: string | null } {
  if (key.asymmetricKeyType === 'ed25519') return { alg: 'EdDSA', digest: null }
  if (key.asymmetricKeyType !== 'ec') return { alg: 'RS256', digest: 'sha256' }
  const curve = key.asymmetricKeyDetails?.namedCurve
  if (curve === 'secp384r1') return { alg: 'ES384', digest: 'sha384' }
  return curve === 'secp521r1' ? { alg: 'ES512', digest: 'sha512' } : { alg: 'ES256', digest: 'sha256' }
}

/** The same text for the same credentials. It holds the secret only as a digest. */
export function digestOf(auth: OAuth2): string {
  const { tokenUrl, clientId, method, secret, keyId, scope, audience } = auth
  const parts = [tokenUrl, clientId, method, secret, keyId, scope, audience]
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64')
}

/** The token endpoint as sentences name it: without a query, which may hold a secret. */
export function tokenEndpointOf({ tokenUrl }: OAuth2): string {
  const url = URL.parse(tokenUrl)
  return url === null ? 'the token endpoint' : `the token endpoint ${url.origin}${url.pathname}`
}

/** Reads the answer of a token endpoint. Nothing of it is shown but the status and the error code of OAuth. */
export function readTokenAnswer(auth: OAuth2, outcome: Outcome): TokenAnswer | TokenProblem {
  const { code, status, response, retryAfterMs } = outcome
  const where = tokenEndpointOf(auth)
  if (status === 0) {
    const error = outcome.error?.replace(/^The receiver /, 'it ') ?? 'it gave no answer.'
    return { message: `No token from ${where}: ${error}` }
  }
  const fields = response === undefined ? undefined : jsonObject(response)
  if (code !== 'delivered') {
    // A description of the error is left out: some servers repeat the secret in it.
    const error = typeof fields?.error === 'string' && oauthErrors.has(fields.error) ? ` (${fields.error})` : ''
    const remedy =
      fields?.error === 'invalid_client'
        ? ' Check the client id and the client secret.'
        : code === 'redirected'
          ? ' Redirects are not followed: set `tokenUrl` to the last address.'
          : ''
    return { message: `No token from ${where}: it answered ${status}${error}.${remedy}`, retryAfterMs }
  }
  const problem = tokenProblem(fields, response?.length ?? 0)
  if (problem !== undefined) return { message: `No token from ${where}: ${problem}.` }
  return { token: String(fields?.access_token), lifetimeMs: lifetimeOf(fields?.expires_in) }
}

/** The error codes of RFC 6749 5.2, and those that servers commonly add. */
const oauthErrors: ReadonlySet<string> = new Set([
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
  'invalid_target',
  'access_denied',
  'server_error',
  'temporarily_unavailable',
])

function tokenProblem(fields: Record<string, unknown> | undefined, bytes: number): string | undefined {
  if (bytes >= tokenAnswerBytes) return `its answer is longer than ${tokenAnswerBytes / 1024} KiB`
  if (fields === undefined) return 'its answer is not a JSON object'
  const { access_token: token, token_type: type = 'bearer' } = fields
  if (typeof token !== 'string' || token === '') return 'its answer has no `access_token`'
  if (token.length > longestToken) return `its token is longer than ${longestToken} characters`
  if (!/^[\x21-\x7e]+$/.test(token)) return 'its token has characters that a header cannot carry'
  if (typeof type !== 'string' || type.toLowerCase() !== 'bearer') return 'its token is not of the type Bearer'
  return undefined
}

/** Some servers write the number as text. */
function lifetimeOf(expiresIn: unknown): number | undefined {
  const seconds = typeof expiresIn === 'string' && expiresIn.trim() !== '' ? Number(expiresIn) : expiresIn
  return typeof seconds === 'number' && !Number.isNaN(seconds) ? seconds * 1000 : undefined
}

function jsonObject(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(bytes).toString('utf8'))
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : undefined
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return undefined
  }
}
