import { hash } from 'node:crypto'
import type { AuditEntry, AuditRow, HashText, TrimmedRows } from '../domain/audit.ts'
import type { EpochMs } from '../domain/clock.ts'
import type { Page, PageRequest } from './page.ts'
import type { Signature } from './signing.ts'

/** Access to the API, and the log of changes made through it. */
export interface Access extends Keys, Auditing, Trailing {}

/** API keys and application tokens, known by the SHA-256 of their text. The text itself is never stored. */
export interface Keys {
  createApiKey(key: NewApiKey): Promise<ApiKey>
  /** By hash. A key that was revoked, has expired, or whose application is deleted is not found. */
  findApiKey(hash: Uint8Array): Promise<ApiKey | undefined>
  /** Whether a key with this hash was ever created, also one that was revoked or has expired. */
  knowsApiKey(hash: Uint8Array): Promise<boolean>
  /** All keys, also revoked and expired ones. */
  listApiKeys(page: PageRequest): Promise<Page<ApiKey>>
  /** By id. A key that was revoked before keeps that instant. */
  revokeApiKey(id: string): Promise<ApiKey | undefined>
  /** Notes that the key was used, no more often than once a minute. */
  noteApiKeyUse(key: number): Promise<void>
  /** Valid keys with the scope `admin` for all applications: without any, no caller can make another. */
  countAdminKeys(): Promise<number>
  createAppToken(token: NewAppToken): Promise<AppToken>
  /** By hash, until the token or the API key that made it ends. */
  findAppToken(hash: Uint8Array): Promise<AppToken | undefined>
  /**
   * Ends an application's tokens in `inMs` at the latest: those of these sessions, or all when the list is null. Answers
   * how many.
   */
  expireAppTokens(app: number, sessionIds: readonly string[] | null, inMs: number): Promise<number>
  /** Ends one token now. */
  endAppToken(key: number): Promise<void>
}

export interface NewApiKey {
  readonly name: string
  readonly hash: Uint8Array
  /** `admin`, `publish`, `read`. */
  readonly scopes: readonly string[]
  /** The key of the one application it is for; null or absent for all. */
  readonly app?: number | null
  /** Null or absent never expires. */
  readonly expiresInMs?: number | null
}

export interface ApiKey {
  readonly key: number
  readonly id: string
  readonly name: string
  readonly scopes: readonly string[]
  readonly app: AppRef | null
  readonly createdAt: EpochMs
  readonly expiresAt: EpochMs | null
  /** Within a minute. */
  readonly lastUsedAt: EpochMs | null
  readonly revokedAt: EpochMs | null
}

/** The application that a key or token is bound to. */
export interface AppRef {
  readonly key: number
  readonly id: string
  readonly uid: string | null
}

/** A token for one application's portal. */
export interface NewAppToken {
  readonly app: number
  readonly hash: Uint8Array
  /** Svix's names: `ViewBase`, `ManageEndpoint`, … */
  readonly capabilities: readonly string[]
  /** The feature flags whose event types it sees; null or absent for all. */
  readonly featureFlags?: readonly string[] | null
  readonly sessionId: string | null
  /** The API key that it ends with; null or absent for none. */
  readonly madeBy?: number | null
  readonly expiresInMs: number
}

export interface AppToken {
  readonly key: number
  readonly id: string
  readonly app: AppRef
  readonly capabilities: readonly string[]
  readonly featureFlags: readonly string[] | null
  readonly sessionId: string | null
  readonly createdAt: EpochMs
  readonly expiresAt: EpochMs
}

/** How often the use of a key is noted. */
export const noteUseEveryMs = 60_000

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
