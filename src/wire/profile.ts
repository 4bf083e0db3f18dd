import { createHmac, createSecretKey, hash, type KeyObject, sign } from 'node:crypto'
import type { EpochMs } from '../domain/clock.ts'
import type { SignatureProfile } from '../domain/flow.ts'
import type { SignatureHeaders } from '../features/applications/noun.ts'
import { headerNames, olderHeader, type PartNames } from './receiver.ts'
import { bytesOf, privateKeyOf, sharedKey } from './secret.ts'

/** Signs `head` followed by `body`. */
type Signer = (head: string, body: Uint8Array) => string

/** Signs a body alone. */
export type BodySigner = (body: Uint8Array) => string

const blockBytes = 64
const digestBytes = 32
/** Longer contents are not copied next to the pad. */
const shortBytes = 8192
/** The pad and a content, one after the other. Signing is synchronous, so one buffer serves every key. */
const scratch = Buffer.allocUnsafe(blockBytes + shortBytes)

/**
 * HMAC-SHA256 (RFC 2104) of `head` followed by `body`. A short content takes two one-shot hashes over pads that are made
 * once: 1.4 µs for 400 bytes, and no object for the garbage collector. `createHmac` takes 2.5 µs with a KeyObject, and
 * 16 µs with raw bytes.
 */
function hmacOf(bytes: Uint8Array): (head: string, body: Uint8Array, encoding: 'base64' | 'hex') => string {
  // Made for the first long content: it takes longer than all else here, and most contents are short.
  let key: KeyObject | undefined
  const short = bytes.length > blockBytes ? hash('sha256', bytes, 'buffer') : bytes
  // Parts of a larger buffer: memory of their own would cost each a microsecond, and each lane that is claimed has two.
  const inner = Buffer.allocUnsafe(blockBytes)
  const outer = Buffer.allocUnsafe(blockBytes + digestBytes)
  for (let i = 0; i < blockBytes; i++) {
    const byte = short[i] ?? 0
    inner[i] = byte ^ 0x36
    outer[i] = byte ^ 0x5c
  }
  return (head, body, encoding) => {
    // A character of a head takes at most three bytes.
    if (3 * head.length + body.length > shortBytes) {
      key ??= createSecretKey(bytes)
      return createHmac('sha256', key).update(head).update(body).digest(encoding)
    }
    scratch.set(inner)
    const start = blockBytes + scratch.write(head, blockBytes, 'utf8')
    scratch.set(body, start)
    outer.write(hash('sha256', scratch.subarray(0, start + body.length), 'binary'), blockBytes, 'latin1')
    return hash('sha256', outer, encoding)
  }
}

/**
 * The signer of Standard Webhooks, which gives one entry of the signature header: HMAC-SHA256 (`v1`) for a shared secret,
 * ed25519 (`v1a`) for a `whsk_` one. Undefined when the text is no secret.
 */
export function standardSigner(secret: string): Signer | undefined {
  const bytes = sharedKey(secret, 'base64')
  if (bytes !== undefined && bytes.length > 0) {
    const hmac = hmacOf(bytes)
    return (head, body) => `v1,${hmac(head, body, 'base64')}`
  }
  const key = secret.startsWith('whsk_') ? privateKeyOf(bytesOf(secret) ?? Buffer.alloc(0)) : undefined
  if (key === undefined) return undefined
  return (head, body) => `v1a,${sign(null, Buffer.concat([Buffer.from(head), body]), key).toString('base64')}`
}

/** The signer of every other profile: HMAC-SHA256 in hex. Undefined for a secret of the asymmetric kind. */
export function hexSigner(secret: string): Signer | undefined {
  const bytes = sharedKey(secret, 'text')
  if (bytes === undefined || bytes.length === 0) return undefined
  const hmac = hmacOf(bytes)
  return (head, body) => hmac(head, body, 'hex')
}

/** The signer of the signature that is stored with a message. */
export function bodySigner(secret: string): BodySigner | undefined {
  const sign = hexSigner(secret)
  return sign && ((body) => sign('', body))
}

/** The parts of a request that a signature covers. */
interface Signed {
  readonly id: string
  readonly body: Uint8Array
  /** The signature that was made when the message was accepted, for the profile that keeps one. */
  readonly signature?: string | null
}

/**
 * How requests are signed: the names of the headers of the id and the signature, known in advance, and their values, made
 * per attempt.
 */
export interface Signing {
  /** In the order in which `values` fills them in. */
  readonly names: readonly string[]
  /** Puts the values of one request into every second place of a list, from `at` on. */
  values(list: string[], at: number, signed: Signed, timestamp: string, now: EpochMs): void
}

/** The signer of one secret, until the secret expires. */
interface ExpiringSigner {
  readonly sign: Signer
  readonly expiresAt: EpochMs
}

/** The signer of a secret by a profile; undefined when the secret cannot sign so. */
export function signerOf(profile: SignatureProfile, secret: string): Signer | undefined {
  return profile === 'standard' ? standardSigner(secret) : hexSigner(secret)
}

/** How requests are signed by a profile. The newest secret is the first. */
export function signingBy(
  profile: SignatureProfile,
  signers: readonly ExpiringSigner[],
  headers: SignatureHeaders,
): Signing {
  const [names, ...others] = namesBy(profile, headers)
  const signatures = signaturesBy(profile, signers, names)
  const own = [names.id, ...signatures.names]
  const copies = others.flatMap((other) => copiesOf(names, other, own))
  return {
    names: [...own, ...copies.map(({ name }) => name)],
    values(list, at, signed, timestamp, now) {
      list[at] = signed.id
      signatures.values(list, at + 2, signed, timestamp, now)
      let to = at + 2 * own.length
      for (const { of } of copies) {
        list[to] = list[at + 2 * of] as string
        to += 2
      }
    },
  }
}

type NameSets = ReturnType<typeof headerNames>
const familyNames = new Map<string, NameSets>()

/** As `headerNames`; those of a family are made once. */
function namesBy(profile: SignatureProfile, headers: SignatureHeaders): NameSets {
  if (typeof headers !== 'string') return headerNames(profile, headers)
  const key = `${profile} ${headers}`
  const names = familyNames.get(key) ?? headerNames(profile, headers)
  familyNames.set(key, names)
  return names
}

/** The headers of another set of names: each with the place of the header whose value it repeats. */
function copiesOf(names: PartNames, other: PartNames, own: readonly string[]): { name: string; of: number }[] {
  return (['id', 'timestamp', 'signature'] as const).flatMap((part) =>
    names[part] === other[part] ? [] : [{ name: other[part], of: own.indexOf(names[part]) }],
  )
}

function signaturesBy(
  profile: SignatureProfile,
  signers: readonly ExpiringSigner[],
  { timestamp, signature }: PartNames,
): Signing {
  switch (profile) {
    case 'standard':
      return standard(signers, timestamp, signature)
    case 'stored':
      return stored(signers, signature)
    case 'timestamped':
      return timestamped(signers, timestamp, signature)
    case 'github':
      return github(signers, signature)
    case 'stripe':
      return stripe(signers, signature)
  }
}

/** Standard Webhooks: one entry per secret that has not expired. */
function standard(signers: readonly ExpiringSigner[], timestampName: string, name: string): Signing {
  const [only] = signers.length === 1 ? signers : []
  return {
    names: [timestampName, name],
    values(list, at, { id, body }, timestamp, now) {
      const head = `${id}.${timestamp}.`
      list[at] = timestamp
      list[at + 2] = only ? only.sign(head, body) : each(signers, head, body, now).join(' ')
    },
  }
}

/** The signature made when the message was accepted. A message accepted before the endpoint had this profile is signed now. */
function stored(signers: readonly ExpiringSigner[], name: string): Signing {
  return {
    names: [name],
    values(list, at, { signature, body }) {
      list[at] = signature ?? (signers[0] as ExpiringSigner).sign('', body)
    },
  }
}

/** `sha256=` and the hex signature of `timestamp.body`. */
function timestamped(signers: readonly ExpiringSigner[], timestampName: string, name: string): Signing {
  return withOlder([timestampName], name, signers, (list, at, timestamp) => {
    list[at] = timestamp
    return `${timestamp}.`
  })
}

/** `sha256=` and the hex signature of the body. */
function github(signers: readonly ExpiringSigner[], name: string): Signing {
  return withOlder([], name, signers, () => '')
}

/**
 * A signature header with room for one signature: that of the newest secret. A second header carries the signatures of
 * older secrets until they expire, so that a receiver can change over in its own time.
 */
function withOlder(
  before: readonly string[],
  name: string,
  signers: readonly ExpiringSigner[],
  headOf: (list: string[], at: number, timestamp: string) => string,
): Signing {
  const [newest, ...older] = signers as [ExpiringSigner, ...ExpiringSigner[]]
  const place = 2 * before.length
  return {
    names: older.length === 0 ? [...before, name] : [...before, name, olderHeader(name)],
    values(list, at, { body }, timestamp, now) {
      const head = headOf(list, at, timestamp)
      list[at + place] = `sha256=${newest.sign(head, body)}`
      if (older.length === 0) return
      list[at + place + 2] = each(older, head, body, now)
        .map((hex) => `sha256=${hex}`)
        .join(',')
    },
  }
}

/** `t=` and the time, and a `v1=` for each secret that has not expired, over `timestamp.body`. */
function stripe(signers: readonly ExpiringSigner[], name: string): Signing {
  return {
    names: [name],
    values(list, at, { body }, timestamp, now) {
      const entries = each(signers, `${timestamp}.`, body, now).map((hex) => `v1=${hex}`)
      list[at] = [`t=${timestamp}`, ...entries].join(',')
    },
  }
}

function each(signers: readonly ExpiringSigner[], head: string, body: Uint8Array, now: EpochMs): string[] {
  return signers.filter(({ expiresAt }) => expiresAt > now).map(({ sign }) => sign(head, body))
}
