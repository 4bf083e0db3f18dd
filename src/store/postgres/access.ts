import { decodeKey } from '../../domain/ids.ts'
import { type Access, noteUseEveryMs } from '../access.ts'
import { toPage } from '../page.ts'
import { type ApiKeyRow, type AppTokenRow, toApiKey, toAppToken } from '../rows/access.ts'
import { toJson } from '../sql/json.ts'
import { texts } from './arrays.ts'
import { type Database, withNewIdentity } from './database.ts'
import { sqlNow } from './server-time.ts'
import type { Statement } from './sessions.ts'

const keyColumns = `
  k.key, k.id, k.name, k.scopes, k.app, a.id as app_id, a.uid as app_uid, k.created_at, k.expires_at, k.last_used_at,
  k.revoked_at`
// The limit makes it a probe for the one application, however few there are.
const theApp = (key: string) =>
  `lateral (select key, id, uid, deleted_at from application where key = ${key} limit 1) as a`
const selectKeys = `select ${keyColumns} from api_key as k left join ${theApp('k.app')} on true`

const insertApiKey: Statement = {
  name: 'insert-api-key',
  text: `
    insert into api_key (key, id, name, hash, scopes, app, created_at, expires_at)
    select $1, $2, $3, $4, $5, $6, now, now + $7::bigint from (select ${sqlNow} as now) as clock`,
}
// Leans on the unique index over the hash.
export const selectApiKey: Statement = {
  name: 'api-key',
  text: `
    ${selectKeys} where k.hash = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > ${sqlNow})
      and (k.app is null or (a.key is not null and a.deleted_at is null))`,
}
const selectApiKeyByKey: Statement = { name: 'api-key-by-key', text: `${selectKeys} where k.key = $1` }
const selectApiKeys: Readonly<Record<'ascending' | 'descending', Statement>> = {
  ascending: { name: 'api-keys-up', text: `${selectKeys} where k.key > $1 order by k.key limit $2` },
  descending: { name: 'api-keys-down', text: `${selectKeys} where k.key < $1 order by k.key desc limit $2` },
}
const revokeKey: Statement = {
  name: 'revoke-api-key',
  text: `update api_key set revoked_at = ${sqlNow} where key = $1 and revoked_at is null`,
}
const noteUse: Statement = {
  name: 'note-api-key-use',
  text: `
    update api_key set last_used_at = ${sqlNow}
     where key = $1 and (last_used_at is null or last_used_at <= ${sqlNow} - ${noteUseEveryMs})`,
}
const countWorkingAdminKeys: Statement = {
  name: 'count-admin-keys',
  text: `
    select count(*) as count from api_key where revoked_at is null and (expires_at is null or expires_at > ${sqlNow})
       and app is null and scopes::text like '%"admin"%'`,
}

const selectTokens = `
  select t.key, t.id, t.app, a.id as app_id, a.uid as app_uid, t.capabilities, t.session_id, t.created_at, t.expires_at
    from app_token as t join ${theApp('t.app')} on a.deleted_at is null`
const insertAppToken: Statement = {
  name: 'insert-app-token',
  text: `
    insert into app_token (key, id, app, hash, capabilities, session_id, made_by, created_at, expires_at)
    select $1, $2, $3, $4, $5, $6, $8, now, now + $7::bigint from (select ${sqlNow} as now) as clock`,
}
export const selectAppToken: Statement = {
  name: 'app-token',
  text: `
    ${selectTokens} where t.hash = $1 and t.expires_at > ${sqlNow} and (t.made_by is null or exists (
      select 1 from api_key as k
       where k.key = t.made_by and k.revoked_at is null and (k.expires_at is null or k.expires_at > ${sqlNow})))`,
}
const selectAppTokenByKey: Statement = { name: 'app-token-by-key', text: `${selectTokens} where t.key = $1` }
const deleteAppToken: Statement = { name: 'delete-app-token', text: 'delete from app_token where key = $1' }
const sweepAppTokens: Statement = {
  name: 'sweep-app-tokens',
  text: `delete from app_token where expires_at <= ${sqlNow}`,
}
const shortenAppTokens: Statement = {
  name: 'shorten-app-tokens',
  text: `
    update app_token set expires_at = least(expires_at, ${sqlNow} + $2::bigint)
     where app = $1 and expires_at > ${sqlNow} and ($3::text[] is null or session_id = any ($3::text[]))
    returning key`,
}

/** API keys and application tokens. */
export function access(database: Database): Access {
  return { ...apiKeys(database), ...appTokens(database) }
}

type Tokens = 'createAppToken' | 'findAppToken' | 'expireAppTokens' | 'endAppToken'

function apiKeys(database: Database): Omit<Access, Tokens> {
  const { durable } = database

  async function byKey(key: number): Promise<ApiKeyRow | undefined> {
    const [row] = await durable.run<ApiKeyRow>(selectApiKeyByKey, [key])
    return row
  }

  return {
    async createApiKey({ name, hash, scopes, app = null, expiresInMs = null }) {
      const waitMs = expiresInMs === null ? null : Math.round(expiresInMs)
      const made = await withNewIdentity(database, 'key', async ({ key, id }) => {
        await durable.transaction((run) => run(insertApiKey, [key, id, name, hash, toJson(scopes), app, waitMs]))
        return key
      })
      return toApiKey((await byKey(made)) as ApiKeyRow)
    },

    async findApiKey(hash) {
      const [row] = await durable.run<ApiKeyRow>(selectApiKey, [hash])
      return row && toApiKey(row)
    },

    async listApiKeys({ limit, order, after }) {
      const start = after ?? (order === 'ascending' ? -1 : Number.MAX_SAFE_INTEGER)
      const rows = await durable.run<ApiKeyRow>(selectApiKeys[order], [start, limit + 1])
      return toPage(rows, limit, toApiKey)
    },

    async revokeApiKey(id) {
      const key = decodeKey('key', id)
      if (key === undefined || (await byKey(key))?.id !== id) return undefined
      await durable.transaction((run) => run(revokeKey, [key]))
      return toApiKey((await byKey(key)) as ApiKeyRow)
    },

    noteApiKeyUse: async (key) => void (await database.relaxed.run(noteUse, [key])),

    async countAdminKeys() {
      const [row] = await durable.run<{ count: number }>(countWorkingAdminKeys)
      return row?.count ?? 0
    },
  }
}

function appTokens(database: Database): Pick<Access, Tokens> {
  const { durable } = database
  return {
    async createAppToken({ app, hash, capabilities, sessionId, madeBy = null, expiresInMs }) {
      await durable.run(sweepAppTokens)
      const made = await withNewIdentity(database, 'apptok', async ({ key, id }) => {
        const waitMs = Math.round(expiresInMs)
        await durable.transaction((run) =>
          run(insertAppToken, [key, id, app, hash, toJson(capabilities), sessionId, waitMs, madeBy]),
        )
        return key
      })
      const [row] = await durable.run<AppTokenRow>(selectAppTokenByKey, [made])
      return toAppToken(row as AppTokenRow)
    },

    async findAppToken(hash) {
      const [row] = await durable.run<AppTokenRow>(selectAppToken, [hash])
      return row && toAppToken(row)
    },

    async expireAppTokens(app, sessionIds, inMs) {
      const sessions = sessionIds === null ? null : texts(sessionIds)
      return (await durable.transaction((run) => run(shortenAppTokens, [app, Math.round(inMs), sessions]))).length
    },

    endAppToken: async (key) => void (await durable.transaction((run) => run(deleteAppToken, [key]))),
  }
}
