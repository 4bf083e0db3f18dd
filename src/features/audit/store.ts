import { hash, verify } from 'node:crypto'
import type { EpochMs } from '../../domain/clock.ts'
import type { Page, PageRequest } from '../../store/store.ts'
import { publicKeyOf } from '../../wire/secret.ts'
import type { AuditEntry, AuditRow, HashText, TrimmedRows } from './rules.ts'

/** The log of changes made through the API, and the server's signatures under documents that leave it. */
export interface Audit extends Auditing, Trailing, Signing {}

/** The audit log: every change and its actor. Rows are appended, and never changed or removed. */
export interface Auditing {
  /** Appends a row behind the last one, durably. */
  appendAudit(entry: AuditEntry): Promise<AuditRow>
  /** Rows by number that meet every filter given. */
  listAudit(page: PageRequest, filter: AuditFilter): Promise<Page<AuditRow>>
  /** The checkpoints of rows that were trimmed off the log, the oldest first. */
  auditCheckpoints(): Promise<SignedTrim[]>
  /**
   * Adds a checkpoint behind the last one. From then on its rows do not count, and `removeTrimmed` removes them. Answers false,
   * and changes nothing, when another checkpoint was added meanwhile, or the log has no row behind its last one.
   */
  addAuditCheckpoint(trim: SignedTrim): Promise<boolean>
  /** Removes up to `limit` rows that a checkpoint stands for; answers how many. */
  removeTrimmed(limit: number): Promise<number>
}

/** Trimmed rows with the signature under `trimText`. */
export interface SignedTrim extends TrimmedRows {
  readonly signature: Signature
}

/** Makes a request's change and its audit row one transaction. */
export interface Trailing {
  /**
   * Runs `work`. The first transaction that changes something for it, however late, also writes the entry. When the work
   * is done and `written` is still false, the caller appends the entry itself; it sets `written` first, so that work that
   * still runs does not write the entry a second time.
   */
  trailing<T>(trail: Trail, work: () => T): T
}

export interface Trail {
  readonly entry: AuditEntry
  written: boolean
}

export interface AuditFilter {
  readonly actor: string | null
  readonly action: string | null
  /** The application's id. */
  readonly app: string | null
  readonly since: number | null
  readonly until: number | null
}

/** The hash that chains rows. */
export const hashText: HashText = (text) => hash('sha256', text, 'hex')

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

/** The bytes that are signed. The purpose keeps a signature from counting for another kind of document. */
export function signedText(purpose: string, text: string): Buffer {
  return Buffer.from(`sluice ${purpose}\n${text}`)
}

/** Whether a signature under a text is that of its public key. The caller decides whether it trusts the key. */
export function isSigned(purpose: string, text: string, { publicKey, signature }: Signature): boolean {
  const key = publicKeyOf(Buffer.from(publicKey, 'base64'))
  return key !== undefined && verify(null, signedText(purpose, text), key, Buffer.from(signature, 'base64'))
}
