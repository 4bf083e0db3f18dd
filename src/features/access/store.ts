import type { EpochMs } from '../../domain/clock.ts'
import type { Page, PageRequest } from '../../store/store.ts'
import type { Application } from '../applications/noun.ts'

/** Access to the API: keys, tokens, sessions of browsers. */
export interface Access extends Keys, WebSessions {}

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
  endAppToken(key: number): Promise<void>
}

export interface NewApiKey extends Pick<ApiKey, 'name' | 'scopes'> {
  readonly hash: Uint8Array
  /** The key of the one application it is for; null or absent for all. */
  readonly app?: number | null
  /** Null or absent never expires. */
  readonly expiresInMs?: number | null
}

export interface ApiKey {
  readonly key: number
  readonly id: string
  readonly name: string
  /** `admin`, `publish`, `read`. */
  readonly scopes: readonly string[]
  readonly app: AppRef | null
  readonly createdAt: EpochMs
  readonly expiresAt: EpochMs | null
  /** Within a minute. */
  readonly lastUsedAt: EpochMs | null
  readonly revokedAt: EpochMs | null
}

/** The application that a key or token is bound to. */
export type AppRef = Pick<Application, 'key' | 'id' | 'uid'>

/** A token for one application's portal. */
export interface NewAppToken extends Pick<AppToken, 'capabilities' | 'sessionId'> {
  readonly app: number
  readonly hash: Uint8Array
  /** Absent for all. */
  readonly featureFlags?: readonly string[] | null
  /** The API key that it ends with; null or absent for none. */
  readonly madeBy?: number | null
  readonly expiresInMs: number
}

export interface AppToken {
  readonly key: number
  readonly id: string
  readonly app: AppRef
  /** Svix's names: `ViewBase`, `ManageEndpoint`, … */
  readonly capabilities: readonly string[]
  /** The feature flags whose event types it sees; null for all. */
  readonly featureFlags: readonly string[] | null
  readonly sessionId: string | null
  readonly createdAt: EpochMs
  readonly expiresAt: EpochMs
}

/** How often the use of a key is noted. */
export const noteUseEveryMs = 60_000

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
