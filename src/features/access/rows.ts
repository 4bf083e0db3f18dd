import { decodeKey } from '../../domain/ids.ts'
import { among, least } from '../../store/sql/dialect.ts'
import { readPage } from '../../store/sql/named-rows.ts'
import { insertNew, type Methods, type Port } from '../../store/sql/port.ts'
import { beyond, direction, inBothOrders, type Shape, statement, toJson } from '../../store/sql/statement.ts'
import { type ApiKey, type AppToken, type Keys, noteUseEveryMs } from './store.ts'

/** Columns of the application that a row belongs to. */
interface AppColumns {
  readonly app_id: string | null
  readonly app_uid: string | null
}
type ApiKeyRow = Omit<ApiKey, 'app'> & AppColumns & { readonly app: number | null }
type AppTokenRow = Omit<AppToken, 'app'> & AppColumns & { readonly app: number }

const keyShape: Shape<ApiKeyRow> = { json: ['scopes'] }
const tokenShape: Shape<AppTokenRow> = { json: ['capabilities', 'featureFlags'] }

/** The id and uid of a row's application. Each is a probe for one row: a join could read all applications. */
const applicationOf = (table: string) => `
  (select id from application where application.key = ${table}.app limit 1) as app_id,
  (select uid from application where application.key = ${table}.app limit 1) as app_uid`
const applicationExists = (table: string) =>
  `(select deleted_at is null from application where application.key = ${table}.app limit 1)`

const selectKeys = `
  select api_key.key, api_key.id, name, scopes, app, ${applicationOf('api_key')}, created_at as "createdAt",
         expires_at as "expiresAt", last_used_at as "lastUsedAt", revoked_at as "revokedAt"
    from api_key`
const keyWorks = `revoked_at is null and (expires_at is null or expires_at > :now)
      and (app is null or ${applicationExists('api_key')})`
const worksForAll = `revoked_at is null and (expires_at is null or expires_at > :now)
      and app is null and cast(scopes as text) like '%"admin"%'`
const insertApiKey = statement<{ key: number }>('insert-api-key')`
  insert into api_key (key, id, name, hash, scopes, app, created_at, expires_at)
  values (:key, :id, :name, :hash, :scopes, :app, :now, :now + cast(:expires_in_ms as bigint))
  on conflict (key) do nothing returning key`
// Leans on the unique index over the hash.
const selectApiKey = statement<ApiKeyRow>('api-key', keyShape)`${selectKeys} where hash = :hash and ${keyWorks}`
/** By key, as `findApiKey` finds it by its hash. */
export const selectWorkingApiKey = statement<ApiKeyRow>('working-api-key', keyShape)`
  ${selectKeys} where key = :key and ${keyWorks}`
// Leans on the unique index over the hash.
const selectAnyApiKey = statement<{ key: number }>('any-api-key')`select key from api_key where hash = :hash`
const selectApiKeyByKey = statement<ApiKeyRow>('api-key-by-key', keyShape)`${selectKeys} where key = :key`
const selectApiKeys = inBothOrders<ApiKeyRow>('api-keys', keyShape)`
  ${selectKeys} where key ${beyond} :after order by key ${direction} limit :limit`
const revokeKey = statement('revoke-api-key')`
  update api_key set revoked_at = :now where key = :key and revoked_at is null`
/** Notes that a row of a table was used, if that was not noted lately. */
export const noteUseOf = (name: string, table: string) => statement(name)`
  update ${table} set last_used_at = :now
   where key = :key and (last_used_at is null or last_used_at <= :now - ${noteUseEveryMs})`
const noteUse = noteUseOf('note-api-key-use', 'api_key')
const countWorkingAdminKeys = statement<{ count: number }>('count-admin-keys')`
  select count(*) as count from api_key where ${worksForAll}`
export const selectOldestAdminKey = statement<ApiKeyRow>('oldest-admin-key', keyShape)`
  ${selectKeys} where ${worksForAll} order by key limit 1`

const selectTokens = `
  select app_token.key, app_token.id, app, ${applicationOf('app_token')}, capabilities, feature_flags as "featureFlags",
         session_id as "sessionId",         created_at as "createdAt", expires_at as "expiresAt"
    from app_token`
const insertAppToken = statement<{ key: number }>('insert-app-token')`
  insert into app_token (key, id, app, hash, capabilities, feature_flags, session_id, made_by, created_at, expires_at)
  values (:key, :id, :app, :hash, :capabilities, :feature_flags, :session_id, :made_by, :now, :now + cast(:expires_in_ms as bigint))
  on conflict (key) do nothing returning key`
/** A token ends with the API key that made it. */
const tokenWorks = `expires_at > :now and ${applicationExists('app_token')}
      and (made_by is null or (
        select revoked_at is null and (api_key.expires_at is null or api_key.expires_at > :now)
          from api_key where api_key.key = app_token.made_by limit 1))`
// Leans on the unique index over the hash.
const selectAppToken = statement<AppTokenRow>('app-token', tokenShape)`
  ${selectTokens} where hash = :hash and ${tokenWorks}`
/** By key, as `findAppToken` finds it by its hash. */
export const selectWorkingAppToken = statement<AppTokenRow>('working-app-token', tokenShape)`
  ${selectTokens} where key = :key and ${tokenWorks}`
const selectAppTokenByKey = statement<AppTokenRow>('app-token-by-key', tokenShape)`${selectTokens} where key = :key`
const deleteAppToken = statement('delete-app-token')`delete from app_token where key = :key`
// Leans on app_token_expires.
const sweepAppTokens = statement('sweep-app-tokens')`delete from app_token where expires_at <= :now`
// Leans on app_token_app.
const shortenAppTokens = statement<{ key: number }>('shorten-app-tokens')`
  update app_token set expires_at = ${least('expires_at', ':now + cast(:in_ms as bigint)')}
   where app = :app and expires_at > :now and (:all_sessions or ${among('session_id', ':sessions', 'text')})
  returning key`

// Both lean on web_session_owner.
const endSessionsOf = statement('end-web-sessions-of')`
  delete from web_session where owner_kind = :owner_kind and owner = :key`
const shortenSessions = statement('shorten-web-sessions')`
  update web_session set expires_at = ${least('expires_at', ':now + cast(:in_ms as bigint)')}
   where owner_kind = 'app_token' and ${among('owner', ':tokens')}`

/** API keys and application tokens. */
export function access(port: Port): Methods<Keys> {
  return {
    *createApiKey({ name, hash, scopes, app = null, expiresInMs = null }) {
      const values = { name, hash, scopes: toJson(scopes), app, expires_in_ms: rounded(expiresInMs) }
      const row = yield* port.transaction(function* (sql) {
        const { key } = yield* insertNew(sql, 'key', insertApiKey, () => values)
        return yield* sql.first(selectApiKeyByKey, { key })
      })
      return toApiKey(row as ApiKeyRow)
    },

    *findApiKey(hash) {
      const row = yield* port.first(selectApiKey, { hash })
      return row && toApiKey(row)
    },

    knowsApiKey: (hash) => port.any(selectAnyApiKey, { hash }),

    listApiKeys: (page) => readPage(port, selectApiKeys, {}, page, toApiKey),

    *revokeApiKey(id) {
      const key = decodeKey('key', id)
      if (key === undefined) return undefined
      return yield* port.transaction(function* (sql) {
        if ((yield* sql.first(selectApiKeyByKey, { key }))?.id !== id) return undefined
        yield* sql.run(revokeKey, { key })
        yield* sql.run(endSessionsOf, { owner_kind: 'api_key', key })
        return toApiKey((yield* sql.first(selectApiKeyByKey, { key })) as ApiKeyRow)
      })
    },

    noteApiKeyUse: (key) => port.relaxed.run(noteUse, { key }),

    *countAdminKeys() {
      return (yield* port.first(countWorkingAdminKeys))?.count ?? 0
    },

    *createAppToken({ app, hash, capabilities, featureFlags = null, sessionId, madeBy = null, expiresInMs }) {
      yield* port.run(sweepAppTokens)
      const lists = { capabilities: toJson(capabilities), feature_flags: toJson(featureFlags) }
      const fields = { app, hash, ...lists, session_id: sessionId, made_by: madeBy }
      const row = yield* port.transaction(function* (sql) {
        const values = { ...fields, expires_in_ms: rounded(expiresInMs) }
        const { key } = yield* insertNew(sql, 'apptok', insertAppToken, () => values)
        return yield* sql.first(selectAppTokenByKey, { key })
      })
      return toAppToken(row as AppTokenRow)
    },

    *findAppToken(hash) {
      const row = yield* port.first(selectAppToken, { hash })
      return row && toAppToken(row)
    },

    *expireAppTokens(app, sessionIds, inMs) {
      const values = { app, in_ms: rounded(inMs), all_sessions: sessionIds === null, sessions: sessionIds ?? [] }
      return yield* port.transaction(function* (sql) {
        const tokens = (yield* sql.all(shortenAppTokens, values)).map(({ key }) => key)
        yield* sql.run(shortenSessions, { in_ms: rounded(inMs), tokens })
        return tokens.length
      })
    },

    *endAppToken(key) {
      yield* port.transaction(function* (sql) {
        yield* sql.run(deleteAppToken, { key })
        yield* sql.run(endSessionsOf, { owner_kind: 'app_token', key })
      })
    },
  }
}

function rounded(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms)
}

export function toApiKey({ app, app_id: id, app_uid: uid, ...row }: ApiKeyRow): ApiKey {
  return { ...row, app: app === null ? null : { key: app, id: id ?? '', uid } }
}

export function toAppToken({ app, app_id: id, app_uid: uid, ...row }: AppTokenRow): AppToken {
  return { ...row, app: { key: app, id: id ?? '', uid } }
}
