import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import type { EpochMs } from '../domain/clock.ts'

/** Signatures of this server under documents that leave it: reports, checkpoints. */
export interface Signing {
  /** Signs a text for one purpose, such as `erasure`. The server's key is made at the first use. */
  sign(purpose: string, text: string): Promise<Signature>
  /**
   * The public keys that this server signs or signed with, the newest first. A key whose private part does not open with the
   * server's encryption keys is left out: anybody with access to the database could have put it there.
   */
  signingKeys(): Promise<SigningKey[]>
}

export interface SigningKey {
  /** The beginning of the SHA-256 of the public key. */
  readonly id: string
  /** 32 bytes of ed25519 in base64. */
  readonly publicKey: string
  readonly createdAt: EpochMs
}

export interface Signature {
  readonly algorithm: 'ed25519'
  readonly keyId: string
  readonly publicKey: string
  /** In base64. */
  readonly signature: string
}

/** DER of an ed25519 public key, up to where its 32 bytes follow. */
const publicKeyPrefix = Buffer.from('302a300506032b6570032100', 'hex')

/** The bytes that are signed. The purpose keeps a signature from counting for another kind of document. */
export function signedText(purpose: string, text: string): Buffer {
  return Buffer.from(`sluice ${purpose}\n${text}`)
}

/** Whether a signature under a text is that of its public key. The caller decides whether it trusts the key. */
export function isSigned(purpose: string, text: string, { publicKey, signature }: Signature): boolean {
  const key = publicKeyOf(publicKey)
  return key !== undefined && verify(null, signedText(purpose, text), key, Buffer.from(signature, 'base64'))
}

function publicKeyOf(text: string): KeyObject | undefined {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length !== 32) return undefined
  return createPublicKey({ key: Buffer.concat([publicKeyPrefix, bytes]), format: 'der', type: 'spki' })
}
