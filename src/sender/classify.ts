import type { Outcome, OutcomeCode } from '../domain/outcome.ts'
import type { Origin, Phase } from './connect.ts'

/** An outcome without a status, and a sentence about it for the endpoint's owner. */
export interface Failure {
  readonly outcome: OutcomeCode
  readonly message: string
}

/** Why no connection was made. It is created where the cause is known. */
export class ConnectFailure extends Error implements Failure {
  override readonly name = 'ConnectFailure'
  readonly outcome: OutcomeCode

  constructor(outcome: OutcomeCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.outcome = outcome
  }
}

/** Common faults of certificates in words; any other is shown by its code. */
const certificateTroubles: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate chain ends in a self-signed certificate',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate chain is incomplete',
  UNABLE_TO_GET_ISSUER_CERT: 'its certificate chain is incomplete',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is from an authority that is not trusted',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  CERT_REVOKED: 'its certificate was revoked',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host name',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS on this port',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS on this port',
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'it speaks no TLS version from 1.2 up',
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'it speaks no TLS version from 1.2 up',
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: 'it does not offer HTTP/1.1',
  ECONNRESET: 'it closed the connection during the handshake',
  // In TLS 1.2 this is also the alert of a server that misses a client certificate.
  'ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE': 'it refused the handshake; it may ask for a client certificate',
}

/** Classifies an error before a connection was open. */
export function connectFailure(to: Origin, phase: Phase, error: Error): ConnectFailure {
  if (error instanceof ConnectFailure) return error
  const code = codeOf(error)
  const where = `${to.host} port ${to.port}`
  if (phase === 'securing') {
    if (isCertificateAlert(code)) {
      return new ConnectFailure('client_certificate', certificateRefusal(where, code, to.identity !== undefined), error)
    }
    const trouble = certificateTroubles[code] ?? `the TLS handshake failed (${code})`
    return new ConnectFailure('tls_failed', `No secure connection to ${where}: ${trouble}.`, error)
  }
  switch (code) {
    case 'ECONNREFUSED':
      return new ConnectFailure('connect_refused', `${where} refused the connection.`, error)
    case 'ETIMEDOUT':
      return new ConnectFailure('connect_timeout', `${where} did not accept the connection in time.`, error)
    // Our own shortage says nothing about the receiver.
    case 'EMFILE':
    case 'ENFILE':
    case 'ENOBUFS':
      return new ConnectFailure('internal', `Sluice has no socket left for ${where} (${code}).`, error)
    default:
      return new ConnectFailure('connect_failed', `No connection to ${where} (${code}).`, error)
  }
}

/** Classifies a deadline that passed before a status arrived. */
export function deadlineFailure(phase: Phase, timeoutMs: number): Failure {
  switch (phase) {
    case 'resolving':
      return { outcome: 'dns_timeout', message: `The host name was not resolved within ${timeoutMs} ms.` }
    case 'connecting':
      return { outcome: 'connect_timeout', message: `The connection was not accepted within ${timeoutMs} ms.` }
    case 'securing':
      return { outcome: 'connect_timeout', message: `The TLS handshake did not finish within ${timeoutMs} ms.` }
    case 'open':
      return { outcome: 'timeout', message: `No complete status line and headers within ${timeoutMs} ms.` }
  }
}

/** Alerts of TLS by which a receiver refuses the certificate of its client, or the lack of one. */
const certificateAlert =
  /ALERT_(BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE|CERTIFICATE_(REVOKED|EXPIRED|UNKNOWN|REQUIRED)|UNKNOWN_CA|ACCESS_DENIED)/

function isCertificateAlert(code: string): boolean {
  return certificateAlert.test(code)
}

function certificateRefusal(where: string, code: string, hasOne: boolean): string {
  const name = code.includes('ALERT_')
    ? code
        .replace(/^.*ALERT_/, '')
        .toLowerCase()
        .replaceAll('_', ' ')
    : code
  if (hasOne) return `${where} refused the client certificate of the endpoint (${name}).`
  return `${where} asks for a client certificate (${name}); set \`clientCertificate\` of the endpoint.`
}

/**
 * Whether the receiver refused the client certificate before it read the request, so that the same attempt may show
 * another one: by an alert, or by breaking off the handshake.
 */
export function refusesCertificate(error: Error): boolean {
  if (error instanceof ConnectFailure) {
    return error.outcome === 'client_certificate' || (error.outcome === 'tls_failed' && isBrokenOff(error.cause))
  }
  return isCertificateAlert(codeOf(error))
}

function isBrokenOff(cause: unknown): boolean {
  const code = cause instanceof Error ? codeOf(cause) : ''
  return code === 'ECONNRESET' || code.endsWith('ALERT_HANDSHAKE_FAILURE')
}

/** Bytes of an answer among which the words of `certificatePage` are. */
const pageBytes = 512
/** The pages of nginx, and of servers made from it, for a client certificate that they refuse or miss. */
const certificatePage = /<title>400 (No required SSL certificate was sent|The SSL certificate error)<\/title>/

/** The refusal of a client certificate by a web server, which answers with a page; undefined for any other answer. */
export function certificateAnswer(status: number, body: Uint8Array | undefined, hasOne: boolean): Failure | undefined {
  if (status !== 400 || body === undefined) return undefined
  const [, words] = certificatePage.exec(Buffer.from(body.subarray(0, pageBytes)).toString('latin1')) ?? []
  if (words === undefined) return undefined
  return { outcome: 'client_certificate', message: certificateRefusal('The receiver', `400, ${words}`, hasOne) }
}

/**
 * Classifies an error on an open connection before a status arrived. `answering`: the first byte of an answer had come.
 * `shown`: the connection was opened for this attempt, with a client certificate.
 */
export function wireFailure(error: Error, answering: boolean, hasCertificate = false, shown = false): Failure {
  if (error instanceof ConnectFailure) return error
  if (isHangUp(error)) {
    const when = answering ? 'in the middle of its answer' : 'without an answer'
    // Some servers, such as Node's, refuse a certificate by hanging up, which looks like any other hang-up.
    const may = shown && !answering ? '; it may refuse the client certificate of the endpoint' : ''
    return { outcome: 'reset', message: `The receiver closed the connection ${when}${may}.` }
  }
  const code = codeOf(error)
  // In TLS 1.3 a server refuses a client certificate, or asks for a missing one, only after the handshake.
  if (isCertificateAlert(code)) {
    return { outcome: 'client_certificate', message: certificateRefusal('The receiver', code, hasCertificate) }
  }
  if (code.startsWith('ERR_SSL_')) {
    return { outcome: 'tls_failed', message: `The receiver broke off the TLS connection (${code}).` }
  }
  // For a status below 100 the parser throws ERR_ASSERTION.
  if (invalidHttpCodes.has(code) || code.startsWith('HPE_')) {
    return { outcome: 'invalid_http', message: `The answer is not valid HTTP/1.1 (${error.message.slice(0, 200)}).` }
  }
  return { outcome: 'internal', message: `Sluice failed to make the attempt (${error.message.slice(0, 200)}).` }
}

const invalidHttpCodes: ReadonlySet<string> = new Set([
  'UND_ERR_SOCKET',
  'UND_ERR_HEADERS_OVERFLOW',
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
  'UND_ERR_RES_EXCEEDED_MAX_SIZE',
  'ERR_ASSERTION',
  'HTTPParserError',
])

/** Whether the receiver closed the connection, as opposed to sending something invalid. */
export function isHangUp(error: Error): boolean {
  const code = codeOf(error)
  // undici uses one code for a hang-up and for an unsolicited 100 or 101; only the text tells them apart.
  if (code === 'UND_ERR_SOCKET') return !error.message.startsWith('bad ')
  return code === 'ECONNRESET' || code === 'EPIPE' || code === 'ECONNABORTED' || code === 'ETIMEDOUT'
}

/** The error's code; of an AggregateError (every address of a name failed) the one its parts share, or the first. */
function codeOf(error: Error): string {
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0])
  return (error as NodeJS.ErrnoException).code ?? error.name
}

/** The outcome of an attempt without an answer; its duration is 0 when it never began. */
export function unanswered(code: OutcomeCode, error: string): Outcome {
  return { code, status: 0, wish: undefined, retryAfterMs: undefined, response: undefined, error, durationMs: 0 }
}
