import type { EpochMs } from '../../domain/clock.ts'
import { moment } from '../../domain/phrases.ts'

/**
 * The credentials that an endpoint's requests carry beside their signature. The store keeps them sealed, and no answer
 * shows a secret of them.
 */
export type EndpointAuth = BearerAuth | BasicAuth | OAuth2

/** A fixed token: `Authorization: Bearer …`. */
interface BearerAuth {
  readonly kind: 'bearer'
  readonly token: string
}

/** A user name and a password: `Authorization: Basic …`. */
interface BasicAuth {
  readonly kind: 'basic'
  readonly username: string
  readonly password: string
}

/** How a client proves itself to the token endpoint (RFC 6749 2.3.1, RFC 7523). */
export const tokenMethods = ['client_secret_basic', 'client_secret_post', 'private_key_jwt'] as const
export type TokenMethod = (typeof tokenMethods)[number]

/** Client credentials of OAuth 2.0 (RFC 6749 4.4): requests carry an access token that the token endpoint gives. */
export interface OAuth2 {
  readonly kind: 'oauth2'
  readonly tokenUrl: string
  readonly clientId: string
  readonly method: TokenMethod
  /** The client secret, or the private key (PEM) that signs assertions. */
  readonly secret: string
  /** The key id that assertions name; null for none. */
  readonly keyId: string | null
  readonly scope: string | null
  readonly audience: string | null
}

/** Stands for a query that is not shown. */
export const hiddenQuery = '?***'

/** The URL of a token endpoint as answers and the audit log show it: its query may hold a key. */
export function shownTokenUrl({ tokenUrl }: Pick<OAuth2, 'tokenUrl'>): string {
  const query = tokenUrl.indexOf('?')
  return query < 0 ? tokenUrl : tokenUrl.slice(0, query) + hiddenQuery
}

/** A certificate that the sender shows to the receiver, with its key. */
export interface ClientCertificate {
  /** The certificate and its chain (PEM), the certificate of the key first. */
  readonly certificate: string
  /** The private key (PEM). */
  readonly key: string
  /** SHA-256 of the certificate, as `AB:CD:…`. */
  readonly fingerprint: string
  readonly subject: string
  readonly issuer: string
  readonly validFrom: EpochMs
  readonly validUntil: EpochMs
  /** When it is no longer used, because a newer one replaced it; null for the newest. */
  readonly replacedAt: EpochMs | null
}

/** The certificates of an endpoint, the newest first. At most two: the newest, and the one that it replaces. */
export type ClientCertificates = readonly ClientCertificate[]

/** Certificates that expire within this time are a finding of the doctor, and a warning of `why`. */
export const certificateNoticeMs = 30 * 86_400_000

/** A sentence about a certificate that receivers refuse, now or soon; null when it is good for a while. */
export function certificateWarning(
  { validFrom, validUntil }: Pick<ClientCertificate, 'validFrom' | 'validUntil'>,
  now: EpochMs,
): string | null {
  if (validUntil <= now)
    return `The client certificate expired at ${moment(validUntil, now)}: receivers will refuse it.`
  if (validFrom > now) {
    return `The client certificate is not valid before ${moment(validFrom, now)}: receivers will refuse it.`
  }
  return validUntil - now < certificateNoticeMs ? `The client certificate expires at ${moment(validUntil, now)}.` : null
}

/** The certificates after a new one: the one before stays for the overlap, for a receiver that does not know the new one yet. */
export function rotatedCertificates(
  before: ClientCertificates | null,
  next: ClientCertificate,
  overlapMs: number,
  now: EpochMs,
): ClientCertificates {
  const [newest] = before ?? []
  if (newest !== undefined && newest.fingerprint === next.fingerprint && newest.key === next.key) {
    return before as ClientCertificates
  }
  const keepsOld = newest !== undefined && overlapMs > 0 && newest.validUntil > now
  return keepsOld ? [next, { ...newest, replacedAt: now + overlapMs }] : [next]
}

/**
 * The certificates that may be shown to the receiver now, the preferred one first. A certificate that is not valid yet
 * comes last.
 */
export function usableCertificates(all: ClientCertificates, now: EpochMs): ClientCertificate[] {
  const usable = all.filter(({ replacedAt }) => replacedAt === null || replacedAt > now)
  return [
    ...usable.filter(({ validFrom, validUntil }) => validFrom <= now && now < validUntil),
    ...usable.filter(({ validFrom, validUntil }) => !(validFrom <= now && now < validUntil)),
  ]
}
