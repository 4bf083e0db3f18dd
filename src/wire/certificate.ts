import { createPrivateKey, createPublicKey, type KeyObject, sign, verify, X509Certificate } from 'node:crypto'
import type { ClientCertificate } from '../features/credentials/rules.ts'
import { createSecureContext } from './network.ts'

/** A problem of one of two texts, as the end of a sentence that begins with the name of its field. */
interface PemProblem {
  readonly field: 'certificate' | 'key'
  readonly message: string
}

const longestChain = 8
/** Blocks of a text beyond these are not looked at. */
const mostBlocks = 16
/** A handshake or an assertion with a larger key would hold the loop. */
const rsaBits = { least: 2048, most: 4096 }
/** A key of 4096 bits has 3,300. OpenSSL calculates with the numbers of a key when it reads them. */
const longestKey = 8192
const curves = ['prime256v1', 'secp384r1', 'secp521r1']

/**
 * Reads a client certificate with its chain, and its key, both as PEM. The answer holds both as OpenSSL writes them, so
 * that nothing else in the texts is stored. An expired certificate is no problem here: its receiver decides.
 */
export function readClientCertificate(certificate: string, key: string): ClientCertificate | PemProblem {
  const chain = readChain(certificate)
  if (typeof chain === 'string') return { field: 'certificate', message: chain }
  const privateKey = readPrivateKey(key)
  if (typeof privateKey === 'string') return { field: 'key', message: privateKey }
  const problem = matchProblem(chain, privateKey)
  if (problem !== undefined) return problem
  const [leaf] = chain as [X509Certificate]
  const pem = {
    certificate: chain.map((each) => each.toString()).join(''),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
  try {
    createSecureContext({ minVersion: 'TLSv1.2', cert: pem.certificate, key: pem.key })
  } catch (error) {
    return { field: 'certificate', message: `cannot be used for TLS (${(error as Error).message.slice(0, 120)})` }
  }
  return {
    ...pem,
    fingerprint: leaf.fingerprint256,
    subject: oneLine(leaf.subject),
    issuer: oneLine(leaf.issuer),
    validFrom: leaf.validFromDate.getTime(),
    validUntil: leaf.validToDate.getTime(),
    replacedAt: null,
  }
}

/** Reads a private key (PEM) that signs; a text instead that completes "… must" or "…" with the problem. */
export function readPrivateKey(text: string): KeyObject | string {
  const blocks = pemBlocks(text)
  if (blocks.length === 0) return 'must be a private key as PEM, beginning with -----BEGIN PRIVATE KEY-----'
  const keys = blocks.filter(({ label }) => label.endsWith('PRIVATE KEY'))
  const [block] = keys
  if (block === undefined) return `must be a private key; this is a PEM of the kind ${blocks[0]?.label}`
  if (keys.length > 1) return 'must be one private key alone'
  if (block.label.startsWith('ENCRYPTED') || block.text.includes('Proc-Type: 4,ENCRYPTED')) {
    return 'is encrypted; decrypt it first: openssl pkey -in key.pem -out plain.pem'
  }
  if (block.text.length > longestKey) return `must not be longer than ${longestKey} characters`
  let key: KeyObject
  try {
    key = createPrivateKey(block.text)
  } catch {
    return 'cannot be read: its PEM is damaged, or of a kind that OpenSSL does not know'
  }
  return keyProblem(key) ?? (signs(key) ? key : 'cannot sign: its numbers do not belong together')
}

function keyProblem(key: KeyObject): string | undefined {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key
  if (type === 'ed25519') return undefined
  if (type === 'ec') {
    return curves.includes(details?.namedCurve ?? '') ? undefined : 'must be on the curve P-256, P-384 or P-521'
  }
  if (type !== 'rsa') return 'must be an RSA, an elliptic-curve or an ed25519 key'
  const bits = details?.modulusLength ?? 0
  if (bits < rsaBits.least || bits > rsaBits.most) {
    return `must have ${rsaBits.least} to ${rsaBits.most} bits, not ${bits}`
  }
  return hasUsualNumbers(key) ? undefined : 'has numbers of an unusual size; make it with openssl genpkey'
}

/**
 * Whether the numbers of an RSA key are as long as its modulus says. A private exponent of many times that length signs as
 * well, and takes as many times longer. OpenSSL 3.5 refuses such a key by itself; an older one need not.
 */
function hasUsualNumbers(key: KeyObject): boolean {
  const { n = '', e = '', d, p, q, dp, dq, qi } = key.export({ format: 'jwk' })
  const halves = [p, q, dp, dq, qi]
  const mostOfHalf = n.length / 2 + 4
  if (e.length > 8 || d === undefined || d.length > n.length) return false
  return halves.every((half) => typeof half === 'string' && half !== '' && half.length <= mostOfHalf)
}

/** Whether the key signs, and its own public half takes the signature. */
function signs(key: KeyObject): boolean {
  const digest = key.asymmetricKeyType === 'ed25519' ? null : 'sha256'
  const probe = Buffer.from('sluice')
  try {
    return verify(digest, probe, createPublicKey(key), sign(digest, probe, key))
  } catch {
    return false
  }
}

/** The certificates of a text, in its order; a text instead with the problem. */
function readChain(text: string): readonly X509Certificate[] | string {
  const blocks = pemBlocks(text)
  if (blocks.length === 0) return 'must be a certificate as PEM, beginning with -----BEGIN CERTIFICATE-----'
  const other = blocks.find(({ label }) => !/^(X509 |TRUSTED )?CERTIFICATE$/.test(label))
  if (other?.label.endsWith('PRIVATE KEY')) return 'must hold certificates alone; give the private key in `key`'
  if (other !== undefined) return `must hold certificates alone; it has a PEM of the kind ${other.label}`
  if (blocks.length > longestChain) return `must hold at most ${longestChain} certificates`
  const chain: X509Certificate[] = []
  for (const [i, block] of blocks.entries()) {
    try {
      chain.push(new X509Certificate(block.text))
    } catch {
      return `cannot be read: the PEM of certificate ${i + 1} is damaged`
    }
  }
  return chain
}

function matchProblem(chain: readonly X509Certificate[], key: KeyObject): PemProblem | undefined {
  const place = chain.findIndex((each) => each.checkPrivateKey(key))
  if (place < 0) return { field: 'key', message: 'does not belong to the certificate: their public keys differ' }
  if (place > 0) {
    const message = `must begin with the certificate of the key, which is number ${place + 1}; its issuers follow in order`
    return { field: 'certificate', message }
  }
  const broken = chain.findIndex((each, i) => i > 0 && !chain[i - 1]?.checkIssued(each))
  if (broken > 0) {
    const message = `must be in order: certificate ${broken + 1} did not issue certificate ${broken}`
    return { field: 'certificate', message }
  }
  const [leaf] = chain
  if (Number.isNaN(leaf?.validFromDate.getTime()) || Number.isNaN(leaf?.validToDate.getTime())) {
    return { field: 'certificate', message: 'has no readable time of validity' }
  }
  return undefined
}

interface PemBlock {
  readonly label: string
  readonly text: string
}

/** The first PEM blocks of a text, up to one that is not closed. Each character is looked at a few times at most. */
export function pemBlocks(text: string): readonly PemBlock[] {
  const blocks: PemBlock[] = []
  for (let at = 0; blocks.length < mostBlocks; ) {
    const begin = text.indexOf('-----BEGIN ', at)
    if (begin < 0) return blocks
    const label = /^-----BEGIN ([A-Z0-9 ]{1,40})-----/.exec(text.slice(begin, begin + 64))?.[1]
    const closing = label === undefined ? '' : `-----END ${label}-----`
    const end = label === undefined ? -1 : text.indexOf(closing, begin)
    if (end < 0) return blocks
    at = end + closing.length
    blocks.push({ label: label as string, text: `${text.slice(begin, at)}\n` })
  }
  return blocks
}

/** A distinguished name on one line, without control characters. */
function oneLine(name: string | undefined): string {
  const text = (name ?? '').replaceAll('\n', ', ').replaceAll(/\p{Cc}/gu, '?')
  return text.length <= 300 ? text : `${text.slice(0, 300).toWellFormed()}…`
}
