import { certificateWarning } from '../domain/credentials.ts'
import type { Kind } from '../runtime/setting-kinds.ts'
import type { Item } from './client.ts'
import type { Session } from './command.ts'
import { CommandError, exitCode } from './exit.ts'
import { instant, text } from './table.ts'
import { readFileOrInput } from './terminal.ts'

/** Credentials on the command line and in answers. A file keeps secrets out of the list of processes. */
export const authFlag: Kind<unknown> = { placeholder: 'AUTH', parse: String, show: (auth) => authText(auth as Item) }
export const certificateFlag: Kind<unknown> = {
  placeholder: 'FILE',
  parse: String,
  show: (certificate) => certificateText(certificate as Item),
}

/** The field `auth` from its flag: `bearer:TOKEN`, `basic:USER:PASSWORD`, JSON, or `@FILE` with one of these. */
export async function authOf(session: Session, given: unknown): Promise<unknown> {
  if (given === undefined) return undefined
  const raw = String(given)
  const written = raw.startsWith('@') ? (await readFileOrInput(session.terminal, raw.slice(1))).toString().trim() : raw
  const [, kind, rest = ''] = /^(bearer|basic):(.*)$/s.exec(written) ?? []
  if (kind === 'bearer') return { kind, token: rest }
  if (kind === 'basic') {
    const colon = rest.indexOf(':')
    if (colon < 0) throw new CommandError('--auth basic: needs a user name, a colon and a password.', exitCode.misused)
    return { kind, username: rest.slice(0, colon), password: rest.slice(colon + 1) }
  }
  try {
    return JSON.parse(written)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new CommandError('--auth must be bearer:TOKEN, basic:USER:PASSWORD, JSON, or @FILE.', exitCode.misused)
  }
}

/** The field `clientCertificate` from its flags. One file may hold the certificates and the key. */
export async function certificateOf(session: Session, given: unknown): Promise<unknown> {
  const { clientKey, certificateOverlap } = session.options as { clientKey?: string; certificateOverlap?: number }
  if (given === undefined) {
    if (clientKey === undefined && certificateOverlap === undefined) return undefined
    const flag = clientKey === undefined ? '--certificate-overlap' : '--client-key'
    throw new CommandError(`${flag} needs --client-certificate beside it.`, exitCode.misused)
  }
  const whole = (await readFileOrInput(session.terminal, String(given))).toString()
  const key = clientKey === undefined ? whole : (await readFileOrInput(session.terminal, clientKey)).toString()
  const keys = blocksOf(key, (label) => label.endsWith('PRIVATE KEY'))
  if (keys === '' && clientKey === undefined) {
    throw new CommandError(`${given} has no private key. Give its file, too: --client-key FILE.`, exitCode.misused)
  }
  return {
    certificate: blocksOf(whole, (label) => label.endsWith('CERTIFICATE')) || whole,
    key: keys || key,
    overlapSeconds: certificateOverlap === undefined ? undefined : Math.floor(certificateOverlap / 1000),
  }
}

/** The PEM blocks of a text with these labels. */
function blocksOf(pem: string, isWanted: (label: string) => boolean): string {
  const blocks = pem.split(/(?=-----BEGIN )/).filter((block) => block.startsWith('-----BEGIN '))
  return blocks.filter((block) => isWanted(/^-----BEGIN ([A-Z0-9 ]+)-----/.exec(block)?.[1] ?? '')).join('')
}

function authText({ kind, username, tokenUrl, clientId, method }: Item): string {
  if (kind === 'basic') return `basic, user ${text(username)}`
  return kind === 'oauth2' ? `oauth2, ${text(clientId)} at ${text(tokenUrl)} (${text(method)})` : text(kind)
}

function certificateText({ subject, fingerprint, validUntil, replaces }: Item): string {
  const old = replaces == null ? '' : `; the one before is used until ${instant((replaces as Item).usedUntil)}`
  return `${text(subject)}, ${text(fingerprint).slice(0, 23)}…, valid until ${instant(validUntil)}${old}`
}

/** A warning about a certificate that a command has just set; undefined when it is good for a while. */
export function warningOf({ clientCertificate }: Item, now: number): string | undefined {
  if (clientCertificate == null) return undefined
  const { validFrom, validUntil } = clientCertificate as Item
  const times = { validFrom: Date.parse(text(validFrom)), validUntil: Date.parse(text(validUntil)) }
  return certificateWarning(times, now) ?? undefined
}
