import type { EpochMs } from '../domain/clock.ts'
import type { ApiKey, AppToken } from './access.ts'
import type { Page, PageRequest } from './page.ts'

/**
 * Sessions of browsers, and links that sign in once. Both are known by the SHA-256 of their text, and both end with the
 * key or token that they belong to.
 */
export interface WebSessions {
  /** Starts a session. Its owner keeps the newest `sessionsPerOwner`; older ones end. */
  createWebSession(session: NewWebSession): Promise<WebSession>
  /** By hash, while its owner works. */
  findWebSession(hash: Uint8Array): Promise<OwnedWebSession | undefined>
  /** Sessions that have not ended: of one owner, or of all when it is null. */
  listWebSessions(page: PageRequest, owner: WebSessionOwner | null): Promise<Page<WebSession>>
  /** Ends a session of the owner, or of any when it is null. Answers whether there was one. */
  endWebSession(id: string, owner: WebSessionOwner | null): Promise<boolean>
  /** Ends all sessions of the owner, or of all when it is null, except the one with this key. Answers how many. */
  endWebSessions(owner: WebSessionOwner | null, except: number | null): Promise<number>
  /** Notes that the session was used, no more often than once a minute. */
  noteWebSessionUse(key: number): Promise<void>
  /** Makes a link that signs in once. */
  createSignInLink(link: NewSignInLink): Promise<void>
  /** By hash, while its owner works. The link stays unused. */
  findSignInLink(hash: Uint8Array): Promise<OwnedWebSession | undefined>
  /** Uses a link up. True for one caller only, however many present it at once. */
  useSignInLink(hash: Uint8Array): Promise<boolean>
  /** The oldest valid key with the scope `admin` for all applications. */
  findAdminKey(): Promise<ApiKey | undefined>
}

/** The owner of a session: an API key, an application token, or the admin key of the settings by its hash. */
export type WebSessionOwner =
  | { readonly apiKey: number }
  | { readonly appToken: number }
  | { readonly adminHash: Uint8Array }

export interface NewSignInLink {
  readonly hash: Uint8Array
  readonly owner: WebSessionOwner
  readonly expiresInMs: number
}

export interface NewWebSession extends NewSignInLink {
  /** The browser, as it names itself. */
  readonly userAgent: string | null
  /** The address that signed in. */
  readonly address: string | null
}

export interface WebSession {
  readonly key: number
  readonly id: string
  /** The id of the API key or application token; null for the admin key of the settings. */
  readonly ownerId: string | null
  /** The name of the API key. */
  readonly ownerName: string | null
  /** The id of the one application that the key or token is for; null for all. */
  readonly appId: string | null
  readonly kind: 'dashboard' | 'portal'
  readonly userAgent: string | null
  readonly address: string | null
  readonly createdAt: EpochMs
  readonly expiresAt: EpochMs
  /** Within a minute. */
  readonly lastUsedAt: EpochMs | null
}

/** A session or link together with its owner. */
export interface OwnedWebSession {
  readonly session: WebSession
  /** The owner; for the admin key of the settings, its hash, which the caller compares. */
  readonly owner: { readonly apiKey: ApiKey } | { readonly appToken: AppToken } | { readonly adminHash: Uint8Array }
}

/** Sessions that one key or token can have at once. */
export const sessionsPerOwner = 100
