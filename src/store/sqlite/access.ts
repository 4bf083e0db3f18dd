import { decodeKey } from '../../domain/ids.ts'
import { type Access, type ApiKey, type AppToken, noteUseEveryMs } from '../access.ts'
import { type Page, toPage } from '../page.ts'
import * as rows from '../rows/access.ts'
import type { Connection, Synchronous } from './connection.ts'
import type { Stored } from './rows.ts'

const insertApiKey = `
  insert into api_key (key, id, name, hash, scopes, app, created_at, expires_at) values (?, ?, ?, ?, ?, ?, ?, ?)
  on conflict (key) do nothing`
const selectKeys = `
  select api_key.*, application.id as app_id, application.uid as app_uid
  from api_key left join application on application.key = api_key.app`
const selectApiKey = `
  ${selectKeys} where hash = ? and revoked_at is null and (expires_at is null or expires_at > ?)
  and (app is null or (application.key is not null and application.deleted_at is null))`
const selectApiKeyByKey = `${selectKeys} where api_key.key = ?`
const selectApiKeysUp = `${selectKeys} where api_key.key > ? order by api_key.key limit ?`
const selectApiKeysDown = `${selectKeys} where api_key.key < ? order by api_key.key desc limit ?`
const revokeKey = 'update api_key set revoked_at = ? where key = ? and revoked_at is null'
const noteUse = 'update api_key set last_used_at = ?2 where key = ?1 and (last_used_at is null or last_used_at <= ?3)'
const countWorkingAdminKeys = `
  select count(*) as count from api_key where revoked_at is null and (expires_at is null or expires_at > ?)
    and app is null and scopes like '%"admin"%'`

const insertAppToken = `
  insert into app_token (key, id, app, hash, capabilities, session_id, made_by, created_at, expires_at)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (key) do nothing`
const selectTokens = `
  select app_token.*, application.id as app_id, application.uid as app_uid
  from app_token join application on application.key = app_token.app and application.deleted_at is null`
const selectAppToken = `
  ${selectTokens} where hash = ?1 and expires_at > ?2 and (made_by is null or exists (
    select 1 from api_key
     where key = made_by and revoked_at is null and (api_key.expires_at is null or api_key.expires_at > ?2)))`
const selectAppTokenByKey = `${selectTokens} where app_token.key = ?`
const deleteAppToken = 'delete from app_token where key = ?'
const sweepAppTokens = 'delete from app_token where expires_at <= ?'
const shortenAppTokens = `
  update app_token set expires_at = min(expires_at, :at)
  where app = :app and expires_at > :now
    and (:sessions is null or session_id in (select value from json_each(:sessions)))`

type ApiKeyRow = Stored<rows.ApiKeyRow, 'scopes'>
type AppTokenRow = Stored<rows.AppTokenRow, 'capabilities'>

/** API keys and application tokens. */
export function access(connection: Connection): Synchronous<Access> {
  return { ...apiKeys(connection), ...appTokens(connection) }
}

type Tokens = 'createAppToken' | 'findAppToken' | 'expireAppTokens' | 'endAppToken'

function apiKeys(connection: Connection): Synchronous<Omit<Access, Tokens>> {
  const insert = connection.prepare(insertApiKey)
  const byHash = connection.prepare<ApiKeyRow>(selectApiKey)
  const byKey = connection.prepare<ApiKeyRow>(selectApiKeyByKey)
  const up = connection.prepare<ApiKeyRow>(selectApiKeysUp)
  const down = connection.prepare<ApiKeyRow>(selectApiKeysDown)
  const revoke = connection.prepare(revokeKey)
  const note = connection.prepare(noteUse)
  const count = connection.prepare<{ count: number }>(countWorkingAdminKeys)

  return {
    createApiKey({ name, hash, scopes, app = null, expiresInMs = null }): ApiKey {
      const now = connection.now()
      const expiresAt = expiresInMs === null ? null : now + Math.round(expiresInMs)
      const { key } = connection.transaction(() =>
        connection.insertNew('key', now, (made) => {
          return insert.run(made.key, made.id, name, hash, JSON.stringify(scopes), app, now, expiresAt).changes
        }),
      )
      return toApiKey(byKey.get(key) as ApiKeyRow)
    },

    findApiKey(hash): ApiKey | undefined {
      const row = byHash.get(hash, connection.now())
      return row && toApiKey(row)
    },

    listApiKeys({ limit, order, after }): Page<ApiKey> {
      const start = after ?? (order === 'ascending' ? -1 : Number.MAX_SAFE_INTEGER)
      const rows = (order === 'ascending' ? up : down).all(start, limit + 1)
      return toPage(rows, limit, toApiKey)
    },

    revokeApiKey(id): ApiKey | undefined {
      const key = decodeKey('key', id)
      if (key === undefined || byKey.get(key)?.id !== id) return undefined
      connection.transaction(() => revoke.run(connection.now(), key))
      return toApiKey(byKey.get(key) as ApiKeyRow)
    },

    noteApiKeyUse(key): void {
      const now = connection.now()
      note.run(key, now, now - noteUseEveryMs)
    },

    countAdminKeys(): number {
      return count.get(connection.now())?.count ?? 0
    },
  }
}

function appTokens(connection: Connection): Synchronous<Pick<Access, Tokens>> {
  const insert = connection.prepare(insertAppToken)
  const byHash = connection.prepare<AppTokenRow>(selectAppToken)
  const byKey = connection.prepare<AppTokenRow>(selectAppTokenByKey)
  const remove = connection.prepare(deleteAppToken)
  const sweep = connection.prepare(sweepAppTokens)
  const shorten = connection.prepare(shortenAppTokens)

  return {
    createAppToken({ app, hash, capabilities, sessionId, madeBy = null, expiresInMs }): AppToken {
      const now = connection.now()
      const until = now + Math.round(expiresInMs)
      const { key } = connection.transaction(() => {
        sweep.run(now)
        return connection.insertNew('apptok', now, (made) => {
          const values = [app, hash, JSON.stringify(capabilities), sessionId, madeBy, now, until]
          return insert.run(made.key, made.id, ...values).changes
        })
      })
      return toAppToken(byKey.get(key) as AppTokenRow)
    },

    findAppToken(hash): AppToken | undefined {
      const row = byHash.get(hash, connection.now())
      return row && toAppToken(row)
    },

    expireAppTokens(app, sessionIds, inMs): number {
      const now = connection.now()
      const sessions = sessionIds === null ? null : JSON.stringify(sessionIds)
      return connection.transaction(() => shorten.run({ app, now, at: now + Math.round(inMs), sessions }).changes)
    },

    endAppToken(key): void {
      connection.transaction(() => remove.run(key))
    },
  }
}

function toApiKey(row: ApiKeyRow): ApiKey {
  return rows.toApiKey({ ...row, scopes: JSON.parse(row.scopes) })
}

function toAppToken(row: AppTokenRow): AppToken {
  return rows.toAppToken({ ...row, capabilities: JSON.parse(row.capabilities) })
}
