import type { EpochMs } from '../domain/clock.ts'
import type { SignatureHeaders } from '../domain/endpoint.ts'
import type { SignatureProfile } from '../domain/flow.ts'
import { hexSigner } from './body-signature.ts'
import type { Parcel } from './send.ts'
import { readSecret, type Signer } from './sign.ts'

/** How a target's requests are signed: the headers for it, whose names are worked out once and whose values per attempt. */
export interface Signing {
  /** In the order in which `values` fills them in. */
  readonly names: readonly string[]
  /** Puts the values of one request into every second place of a list, from `at` on. */
  values(list: string[], at: number, parcel: Parcel, timestamp: string, now: EpochMs): void
}

/** A secret as it signs by one profile, until it expires. */
export interface ExpiringSigner {
  readonly sign: Signer
  readonly expiresAt: EpochMs
}

/** What a secret signs by a profile; undefined when it cannot. */
export function signerOf(profile: SignatureProfile, secret: string): Signer | undefined {
  return profile === 'standard' ? readSecret(secret) : hexSigner(secret)
}

const sluiceHeaders = { timestamp: 'x-sluice-timestamp', signature: 'x-sluice-signature' } as const

/**
 * The header that tells one delivery from another; it is the same on every attempt. Whatever the profile, a receiver needs
 * it to know what it has had.
 */
export function idHeader(names: SignatureHeaders): string {
  return names.id ?? 'webhook-id'
}

/** How requests are signed by a profile. The newest secret is the first. */
export function signingBy(
  profile: SignatureProfile,
  signers: readonly ExpiringSigner[],
  names: SignatureHeaders,
): Signing {
  switch (profile) {
    case 'standard':
      return standard(signers, names)
    case 'stored':
      return stored(signers, names.signature ?? sluiceHeaders.signature)
    case 'timestamped':
      return timestamped(signers, { ...sluiceHeaders, ...names })
    case 'github':
      return github(signers)
    case 'stripe':
      return stripe(signers)
  }
}

/** Standard Webhooks: one entry per secret that has not expired. */
function standard(signers: readonly ExpiringSigner[], names: SignatureHeaders): Signing {
  const [only] = signers.length === 1 ? signers : []
  return {
    names: [names.timestamp ?? 'webhook-timestamp', names.signature ?? 'webhook-signature'],
    values(list, at, { id, body }, timestamp, now) {
      const head = `${id}.${timestamp}.`
      list[at] = timestamp
      list[at + 2] = only ? only.sign(head, body) : each(signers, head, body, now).join(' ')
    },
  }
}

/** As it was made when the message was accepted. What was accepted before the endpoint wanted it so is signed now. */
function stored(signers: readonly ExpiringSigner[], name: string): Signing {
  return {
    names: [name],
    values(list, at, { signature, body }) {
      list[at] = signature ?? (signers[0] as ExpiringSigner).sign('', body)
    },
  }
}

/** `sha256=` and the hex signature of `timestamp.body`. */
function timestamped(signers: readonly ExpiringSigner[], names: Required<Omit<SignatureHeaders, 'id'>>): Signing {
  return withOlder([names.timestamp], names.signature, signers, (list, at, timestamp) => {
    list[at] = timestamp
    return `${timestamp}.`
  })
}

/** `sha256=` and the hex signature of the body. */
function github(signers: readonly ExpiringSigner[]): Signing {
  return withOlder([], 'x-hub-signature-256', signers, () => '')
}

/**
 * A signature header that has room for one: it has the newest secret's. Those that still hold have a header beside it, so
 * that a receiver can change over in its own time.
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
    names: older.length === 0 ? [...before, name] : [...before, name, `${name}-old`],
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
function stripe(signers: readonly ExpiringSigner[]): Signing {
  return {
    names: ['stripe-signature'],
    values(list, at, { body }, timestamp, now) {
      const entries = each(signers, `${timestamp}.`, body, now).map((hex) => `v1=${hex}`)
      list[at] = [`t=${timestamp}`, ...entries].join(',')
    },
  }
}

function each(signers: readonly ExpiringSigner[], head: string, body: Uint8Array, now: EpochMs): string[] {
  return signers.filter(({ expiresAt }) => expiresAt > now).map(({ sign }) => sign(head, body))
}
