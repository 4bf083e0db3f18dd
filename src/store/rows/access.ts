import type { EpochMs } from '../../domain/clock.ts'
import type { ApiKey, AppToken } from '../access.ts'

export interface ApiKeyRow {
  readonly key: number
  readonly id: string
  readonly name: string
  readonly scopes: string[]
  readonly app: number | null
  readonly app_id: string | null
  readonly app_uid: string | null
  readonly created_at: EpochMs
  readonly expires_at: EpochMs | null
  readonly last_used_at: EpochMs | null
  readonly revoked_at: EpochMs | null
}

export function toApiKey(row: ApiKeyRow): ApiKey {
  return {
    key: row.key,
    id: row.id,
    name: row.name,
    scopes: row.scopes,
    app: row.app === null ? null : { key: row.app, id: row.app_id ?? '', uid: row.app_uid },
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    lastUsedAt: row.last_used_at,
    revokedAt: row.revoked_at,
  }
}

export interface AppTokenRow {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly app_id: string
  readonly app_uid: string | null
  readonly capabilities: string[]
  readonly session_id: string | null
  readonly created_at: EpochMs
  readonly expires_at: EpochMs
}

export function toAppToken(row: AppTokenRow): AppToken {
  return {
    key: row.key,
    id: row.id,
    app: { key: row.app, id: row.app_id, uid: row.app_uid },
    capabilities: row.capabilities,
    sessionId: row.session_id,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  }
}
