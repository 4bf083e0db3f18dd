import { type Static, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { closed, instant, integer, iso, maybe, nullable, shortText, text } from '../../operations/fields.ts'
import type { Out } from '../../operations/route.ts'
import type { NewEndpoint } from '../../store/store.ts'
import { readClientCertificate, readPrivateKey } from '../../wire/certificate.ts'
import { isSensitiveHeader } from '../../wire/headers.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import {
  type ClientCertificate,
  type ClientCertificates,
  type EndpointAuth,
  hiddenQuery,
  type OAuth2,
  rotatedCertificates,
  shownTokenUrl,
  type TokenMethod,
  tokenMethods,
} from './rules.ts'

const kinds = ['bearer', 'basic', 'oauth2'] as const
const longestPem = 65_536
const word = (most: number, description: string) => maybe(shortText(most), description)

/** Credentials of every attempt. Which fields there are depends on `kind`. */
export const AuthIn = Type.Object(
  {
    kind: Type.Enum([...kinds], {
      description: '`bearer`: a fixed token. `basic`: user name and password. `oauth2`: OAuth 2.0 client credentials.',
    }),
    token: word(3800, 'Token of `bearer`.'),
    username: word(256, 'User name of `basic`, without a colon.'),
    password: word(1024, 'Password of `basic`.'),
    tokenUrl: word(2000, 'URL of the token endpoint of `oauth2`; the same rules apply as to the URL of an endpoint.'),
    clientId: word(1024, 'Client id of `oauth2`.'),
    clientSecret: word(
      2048,
      'Client secret of `oauth2`; when it is absent, the stored one stays, for the same token endpoint and client.',
    ),
    method: maybe(
      Type.Enum([...tokenMethods]),
      'How the client proves itself to the token endpoint; `client_secret_basic` by default, or `private_key_jwt` with a private key.',
    ),
    privateKey: word(longestPem, 'Private key (PEM) of `oauth2` that signs assertions, for `private_key_jwt`.'),
    keyId: word(256, 'Key id (`kid`) that assertions name.'),
    scope: word(2000, 'Scope that is asked for, as the token endpoint takes it.'),
    audience: word(2000, 'Audience that is asked for, for token endpoints that take it.'),
  },
  closed,
)
type AuthIn = Static<typeof AuthIn>

export const ClientCertificateIn = Type.Object(
  {
    certificate: Type.String({
      maxLength: longestPem,
      description: 'Certificate (PEM), followed by the certificates of its issuers in order.',
    }),
    key: Type.String({ maxLength: longestPem, description: 'Private key (PEM), not encrypted.' }),
    overlapSeconds: maybe(
      integer(0, 30 * 86_400),
      'Time during which the certificate that it replaces is shown to a receiver that refuses the new one; a day by default.',
    ),
  },
  closed,
)
type ClientCertificateIn = Static<typeof ClientCertificateIn>

const usualOverlapSeconds = 86_400

/** The credentials without their secrets. */
export const AuthOut = Type.Object({
  kind: Type.Enum([...kinds], { description: '`bearer`, `basic` or `oauth2`.' }),
  username: nullable(text('User name of `basic`.')),
  tokenUrl: nullable(text('URL of the token endpoint of `oauth2`; `?***` stands for a query, which may hold a key.')),
  clientId: nullable(text('Client id of `oauth2`.')),
  method: nullable(text('How the client proves itself to the token endpoint.')),
  keyId: nullable(text('Key id that assertions name.')),
  scope: nullable(text('Scope that is asked for.')),
  audience: nullable(text('Audience that is asked for.')),
})

export const ClientCertificateOut = Type.Object({
  fingerprint: text('SHA-256 of the certificate, as `AB:CD:…`.'),
  subject: text('Owner of the certificate.'),
  issuer: text('Issuer of the certificate.'),
  validFrom: instant('Start of its validity.'),
  validUntil: instant('End of its validity. `sluice doctor` warns 30 days before it.'),
  replaces: nullable(
    Type.Object(
      {
        fingerprint: text('SHA-256 of the certificate that it replaces.'),
        usedUntil: instant('End of the overlap.'),
      },
      { description: 'The certificate before, which is shown to a receiver that refuses the new one.' },
    ),
  ),
})

/** Problems of the credentials in a request, beyond their schemas. */
export function credentialProblems(
  { auth, clientCertificate }: CredentialsIn,
  checkUrl: (url: string) => readonly string[],
): FieldError[] {
  const problems = auth == null ? [] : authProblems(auth, checkUrl)
  const read =
    clientCertificate == null ? undefined : readClientCertificate(clientCertificate.certificate, clientCertificate.key)
  if (read === undefined || !('message' in read)) return problems
  return [...problems, { at: ['body', 'clientCertificate', read.field], message: read.message, type: 'certificate' }]
}

interface CredentialsIn {
  readonly auth?: AuthIn | null
  readonly clientCertificate?: ClientCertificateIn | null
}

/** The fields of each kind: those that must be there, and those that may. */
const fieldsOfKind = {
  bearer: { needed: ['token'], more: [] },
  basic: { needed: ['username', 'password'], more: [] },
  oauth2: {
    needed: ['tokenUrl', 'clientId'],
    more: ['clientSecret', 'method', 'privateKey', 'keyId', 'scope', 'audience'],
  },
} as const satisfies Record<AuthIn['kind'], { readonly needed: readonly string[]; readonly more: readonly string[] }>

function authProblems(auth: AuthIn, checkUrl: (url: string) => readonly string[]): FieldError[] {
  const { kind } = auth
  const { needed, more } = fieldsOfKind[kind]
  const problem = (field: string, message: string) => ({ at: ['body', 'auth', field], message, type: 'auth' })
  const known: readonly string[] = ['kind', ...needed, ...more]
  const foreign = Object.entries(auth).filter(([name, value]) => value != null && !known.includes(name))
  const problems = [
    ...needed.filter((name) => auth[name] == null).map((name) => problem(name, `is needed for the kind ${kind}`)),
    ...foreign.map(([name]) => problem(name, `does not belong to the kind ${kind}`)),
  ]
  if (auth.token != null && !/^[\x21-\x7e]+$/.test(auth.token)) {
    problems.push(problem('token', 'must be printable ASCII without spaces, without the word Bearer before it'))
  }
  if (auth.username?.includes(':')) problems.push(problem('username', 'must not contain a colon'))
  if (kind !== 'oauth2') return problems
  const urlProblems = auth.tokenUrl == null ? [] : checkUrl(auth.tokenUrl)
  problems.push(...urlProblems.map((message) => problem('tokenUrl', message)))
  return [...problems, ...proofProblems(auth).map(([field, message]) => problem(field, message))]
}

/** Problems of a client's proof: a secret and a private key go with different methods. */
function proofProblems(auth: AuthIn): [string, string][] {
  const method = methodOf(auth)
  if (method !== 'private_key_jwt') {
    const foreign = (['privateKey', 'keyId'] as const).filter((field) => auth[field] != null)
    return foreign.map((field) => [field, `does not go with the method ${method}`])
  }
  if (auth.clientSecret != null) return [['clientSecret', 'does not go with the method private_key_jwt']]
  const key = auth.privateKey == null ? undefined : readPrivateKey(auth.privateKey)
  return typeof key === 'string' ? [['privateKey', key]] : []
}

function methodOf({ method, privateKey }: AuthIn): TokenMethod {
  return method ?? (privateKey == null ? 'client_secret_basic' : 'private_key_jwt')
}

/** The credentials of a request that has no problems. A secret that is absent is an empty text. */
export function toAuth(input: AuthIn): EndpointAuth {
  const { kind, token, username, password } = input
  if (kind === 'bearer') return { kind, token: token ?? '' }
  if (kind === 'basic') return { kind, username: username ?? '', password: password ?? '' }
  const { tokenUrl, clientId, clientSecret, privateKey, keyId, scope, audience } = input
  return {
    kind,
    tokenUrl: new URL(tokenUrl ?? '').href,
    clientId: clientId ?? '',
    method: methodOf(input),
    secret: (privateKey == null ? clientSecret : pemOf(privateKey)) ?? '',
    keyId: keyId ?? null,
    scope: scope ?? null,
    audience: audience ?? null,
  }
}

function pemOf(text: string): string {
  const key = readPrivateKey(text)
  return typeof key === 'string' ? '' : key.export({ type: 'pkcs8', format: 'pem' }).toString()
}

export function toCertificates(input: ClientCertificateIn): ClientCertificates | null {
  const read = readClientCertificate(input.certificate, input.key)
  return 'message' in read ? null : [read]
}

/**
 * Completes the credentials that a change sets, by those that are stored: a client secret that is not given again, and
 * the certificate that a new one replaces.
 */
export function completed<T extends Partial<NewEndpoint>>(
  fields: T,
  { clientCertificate: input }: CredentialsIn,
  before: Endpoint | undefined,
  now: EpochMs,
): T {
  const { auth, clientCertificate } = fields
  const next = clientCertificate?.[0]
  const overlapMs = (input?.overlapSeconds ?? usualOverlapSeconds) * 1000
  return {
    ...fields,
    ...(auth?.kind === 'oauth2' && { auth: withStored(auth, fields.url, before) }),
    ...(next !== undefined && {
      clientCertificate: rotatedCertificates(before?.clientCertificate ?? null, next, overlapMs, now),
    }),
  }
}

/** The credentials with the parts that no answer shows, where they are the stored ones. */
function withStored(auth: OAuth2, url: string | undefined, before: Endpoint | undefined): OAuth2 {
  const stored = before?.auth
  const isShown = stored?.kind === 'oauth2' && shownTokenUrl(stored) === auth.tokenUrl
  const whole = isShown ? { ...auth, tokenUrl: stored.tokenUrl } : auth
  return whole.secret === '' ? withSecretOf(whole, url, before) : whole
}

/**
 * The stored secret goes only to the token endpoint that it was given for, and only for its client. The tokens that it
 * gets go only to the host that it was given for.
 */
function withSecretOf(auth: OAuth2, url: string | undefined, before: Endpoint | undefined): OAuth2 {
  const stored = before?.auth
  if (stored?.kind !== 'oauth2' || stored.tokenUrl !== auth.tokenUrl || isMoved(url, before)) return auth
  const isSame = stored.clientId === auth.clientId && isKeyed(stored) === isKeyed(auth)
  return isSame ? { ...auth, secret: stored.secret } : auth
}

function isKeyed({ method }: OAuth2): boolean {
  return method === 'private_key_jwt'
}

/** Problems of an endpoint as it is after a change. */
export function completedProblems(
  fields: Partial<Pick<Endpoint, 'url' | 'auth' | 'clientCertificate' | 'headers'>>,
  before: Endpoint | undefined,
): FieldError[] {
  const { url, auth, clientCertificate } = { ...before, ...fields }
  const problems: FieldError[] = []
  if (auth?.kind === 'oauth2' && auth.tokenUrl.endsWith(hiddenQuery)) {
    const message = 'is cut, because answers do not show its query; give the whole URL'
    problems.push({ at: ['body', 'auth', 'tokenUrl'], message, type: 'auth' })
  }
  if (auth?.kind === 'oauth2' && auth.secret === '') {
    const field = isKeyed(auth) ? 'privateKey' : 'clientSecret'
    problems.push({ at: ['body', 'auth', field], message: 'is needed: there is no stored one to keep', type: 'auth' })
  }
  if (clientCertificate != null && url?.startsWith('https:') === false) {
    const message = 'needs an https URL: without TLS no certificate is shown'
    problems.push({ at: ['body', 'clientCertificate'], message, type: 'certificate' })
  }
  return [...problems, ...movedProblems(fields, before)]
}

/**
 * Secrets that were given for the host of before, and would follow the URL to another host. A person who may change the
 * URL but never knew them could have them sent to a machine of their own.
 */
function movedProblems(
  { url, auth, headers }: Partial<Pick<Endpoint, 'url' | 'auth' | 'headers'>>,
  before: Endpoint | undefined,
): FieldError[] {
  if (before === undefined || !isMoved(url, before)) return []
  const problem = (what: string, remedy: string, type: string): FieldError => {
    const message = `changes the host, and the stored ${what} were given for ${originOf(before.url)}; ${remedy}`
    return { at: ['body', 'url'], message, type }
  }
  // Records that do not open now may open again with the right key.
  const { damaged = [] } = before
  const keepsAuth = auth === undefined && (before.auth != null || damaged.includes('auth'))
  const names = headers === undefined ? Object.keys(before.headers).filter(isSensitiveHeader) : []
  const keepsHeaders = names.length > 0 || (headers === undefined && damaged.includes('headers'))
  const listed = names.length === 0 ? '' : ` (${names.join(', ')})`
  return [
    ...(keepsAuth ? [problem('credentials', 'give `auth` again with it, or null', 'auth')] : []),
    ...(keepsHeaders
      ? [problem(`secret headers${listed}`, 'give all `headers` again with it, or remove these first', 'headers')]
      : []),
  ]
}

/** Whether a change of the URL, if there is one, leads to another host. */
function isMoved(url: string | undefined, before: Endpoint | undefined): boolean {
  return url !== undefined && originOf(url) !== originOf(before?.url)
}

function originOf(url: string | undefined): string | undefined {
  return url === undefined ? undefined : URL.parse(url)?.origin
}

export function toAuthOut(auth: EndpointAuth | null): Out<typeof AuthOut> | null {
  if (auth === null) return null
  const none = {
    username: null,
    tokenUrl: null,
    clientId: null,
    method: null,
    keyId: null,
    scope: null,
    audience: null,
  }
  if (auth.kind === 'bearer') return { ...none, kind: auth.kind }
  if (auth.kind === 'basic') return { ...none, kind: auth.kind, username: auth.username }
  const { kind, clientId, method, keyId, scope, audience } = auth
  return { ...none, kind, tokenUrl: shownTokenUrl(auth), clientId, method, keyId, scope, audience }
}

export function toCertificateOut(all: ClientCertificates | null): Out<typeof ClientCertificateOut> | null {
  const [newest, older] = all ?? []
  if (newest === undefined) return null
  const { fingerprint, subject, issuer, validFrom, validUntil } = newest
  return {
    ...{ fingerprint, subject, issuer },
    validFrom: iso(validFrom),
    validUntil: iso(validUntil),
    replaces: older === undefined ? null : toReplacedOut(older),
  }
}

function toReplacedOut({ fingerprint, replacedAt, validUntil }: ClientCertificate) {
  return { fingerprint, usedUntil: iso(Math.min(replacedAt ?? validUntil, validUntil)) }
}
