import { decodeKey } from '../../domain/ids.ts'
import { deleteFound } from '../../store/sql/dialect.ts'
import { readPage } from '../../store/sql/named-rows.ts'
import { insertNew, type Methods, type Port, type Sql, type Work } from '../../store/sql/port.ts'
import { beyond, direction, inBothOrders, statement, type Values } from '../../store/sql/statement.ts'
import {
  noteUseOf,
  selectOldestAdminKey,
  selectWorkingApiKey,
  selectWorkingAppToken,
  toApiKey,
  toAppToken,
} from '../access/rows.ts'
import {
  type OwnedWebSession,
  sessionsPerOwner,
  type WebSession,
  type WebSessionOwner,
  type WebSessions,
} from '../access/store.ts'

interface WebSessionRow extends Omit<WebSession, 'kind'> {
  readonly ownerKind: 'api_key' | 'app_token' | 'admin'
  readonly owner: number
  readonly adminHash: Uint8Array | null
}

/** One field of the owner. Each is a probe for one row. */
const ofOwner = (kind: 'api_key' | 'app_token', column: string) =>
  `(select ${kind}.${column} from ${kind} where ${kind}.key = web_session.owner and web_session.owner_kind = '${kind}' limit 1)`
const eitherOf = (column: string) => `coalesce(${ofOwner('api_key', column)}, ${ofOwner('app_token', column)})`

const selectSessions = `
  select web_session.key, web_session.id, owner_kind as "ownerKind", owner, admin_hash as "adminHash",
         ${eitherOf('id')} as "ownerId", ${ofOwner('api_key', 'name')} as "ownerName",
         (select application.id from application where application.key = ${eitherOf('app')} limit 1) as "appId",
         user_agent as "userAgent", address, created_at as "createdAt", expires_at as "expiresAt",
         last_used_at as "lastUsedAt"
    from web_session`

const insertSession = statement<{ key: number }>('insert-web-session')`
  insert into web_session (key, id, kind, hash, owner_kind, owner, admin_hash, user_agent, address, created_at, expires_at)
  values (:key, :id, :kind, :hash, :owner_kind, :owner, :admin_hash, :user_agent, :address, :now,
          :now + cast(:expires_in_ms as bigint))
  on conflict (key) do nothing returning key`
// Leans on the unique index over the hash.
const selectSession = statement<WebSessionRow>('web-session')`
  ${selectSessions} where hash = :hash and kind = :kind and expires_at > :now`
const selectSessionByKey = statement<WebSessionRow>('web-session-by-key')`${selectSessions} where key = :key`

// Leans on web_session_owner.
const isOwned = 'owner_kind = :owner_kind and owner = :owner'
const listed = `kind = 'session' and expires_at > :now`
const selectAllSessions = inBothOrders<WebSessionRow>('web-sessions')`
  ${selectSessions} where key ${beyond} :after and ${listed} order by key ${direction} limit :limit`
const selectOwnedSessions = inBothOrders<WebSessionRow>('owned-web-sessions')`
  ${selectSessions} where ${isOwned} and key ${beyond} :after and ${listed} order by key ${direction} limit :limit`
const deleteSession = statement<{ key: number }>('delete-web-session')`
  delete from web_session where key = :key returning key`
const deleteAllSessions = statement<{ key: number }>('delete-web-sessions')`
  delete from web_session where key <> :except and kind = 'session' returning key`
const deleteOwnedSessions = statement<{ key: number }>('delete-owned-web-sessions')`
  delete from web_session where ${isOwned} and key <> :except and kind = 'session' returning key`
/** Ends the sessions of an owner behind its newest ones. */
const trimSessions = statement('trim-web-sessions')`
  ${deleteFound(
    'web_session',
    'key',
    `where ${isOwned} and kind = :kind order by key desc limit 1000 offset ${sessionsPerOwner}`,
  )}`
// Leans on web_session_expires.
const sweepSessions = statement('sweep-web-sessions')`delete from web_session where expires_at <= :now`
// Leans on the unique index over the hash.
const deleteLink = statement<{ key: number }>('use-sign-in-link')`
  delete from web_session where hash = :hash and kind = 'link' and expires_at > :now returning key`
const noteUse = noteUseOf('note-web-session-use', 'web_session')

/** Sessions of browsers and sign-in links. */
export function webSessions(port: Port): Methods<WebSessions> {
  function* create(kind: 'session' | 'link', owner: WebSessionOwner, values: Values): Work<WebSessionRow> {
    return yield* port.transaction(function* (sql) {
      yield* sql.run(sweepSessions)
      const admin_hash = 'adminHash' in owner ? owner.adminHash : null
      const { key } = yield* insertNew(sql, 'sess', insertSession, () => ({
        kind,
        ...ownerOf(owner),
        admin_hash,
        ...values,
      }))
      yield* sql.run(trimSessions, { kind, ...ownerOf(owner) })
      return (yield* sql.first(selectSessionByKey, { key })) as WebSessionRow
    })
  }

  return {
    *createWebSession({ hash, owner, expiresInMs, userAgent, address }) {
      const values = { hash, expires_in_ms: Math.round(expiresInMs) }
      return toWebSession(yield* create('session', owner, { ...values, user_agent: userAgent, address }))
    },

    *findWebSession(hash) {
      return yield* withOwner(port, yield* port.first(selectSession, { hash, kind: 'session' }))
    },

    listWebSessions: (page, owner) =>
      owner === null
        ? readPage(port, selectAllSessions, {}, page, toWebSession)
        : readPage(port, selectOwnedSessions, ownerOf(owner), page, toWebSession),

    *endWebSession(id, owner) {
      const key = decodeKey('sess', id)
      if (key === undefined) return false
      return yield* port.transaction(function* (sql) {
        const found = yield* sql.first(selectSessionByKey, { key })
        if (found?.id !== id || (owner !== null && !isOwner(found, owner))) return false
        return yield* sql.any(deleteSession, { key })
      })
    },

    *endWebSessions(owner, except) {
      const values = { except: except ?? -1 }
      return yield* port.transaction((sql) =>
        owner === null
          ? sql.count(deleteAllSessions, values)
          : sql.count(deleteOwnedSessions, { ...values, ...ownerOf(owner) }),
      )
    },

    noteWebSessionUse: (key) => port.relaxed.run(noteUse, { key }),

    *createSignInLink({ hash, owner, expiresInMs }) {
      const values = { hash, expires_in_ms: Math.round(expiresInMs) }
      yield* create('link', owner, { ...values, user_agent: null, address: null })
    },

    *findSignInLink(hash) {
      return yield* withOwner(port, yield* port.first(selectSession, { hash, kind: 'link' }))
    },

    useSignInLink: (hash) => port.transaction((sql) => sql.any(deleteLink, { hash })),

    *findAdminKey() {
      const row = yield* port.first(selectOldestAdminKey)
      return row && toApiKey(row)
    },
  }
}

/** Adds the owner; undefined when the owner works no more. */
function* withOwner(sql: Sql, row: WebSessionRow | undefined): Work<OwnedWebSession | undefined> {
  if (row === undefined) return undefined
  const session = toWebSession(row)
  if (row.adminHash !== null) return { session, owner: { adminHash: row.adminHash } }
  if (row.ownerKind === 'api_key') {
    const found = yield* sql.first(selectWorkingApiKey, { key: row.owner })
    return found && { session, owner: { apiKey: toApiKey(found) } }
  }
  const found = yield* sql.first(selectWorkingAppToken, { key: row.owner })
  return found && { session, owner: { appToken: toAppToken(found) } }
}

function toWebSession({ ownerKind, owner: _owner, adminHash: _adminHash, ...row }: WebSessionRow): WebSession {
  return { ...row, kind: ownerKind === 'app_token' ? 'portal' : 'dashboard' }
}

function ownerOf(owner: WebSessionOwner): { owner_kind: WebSessionRow['ownerKind']; owner: number } {
  if ('apiKey' in owner) return { owner_kind: 'api_key', owner: owner.apiKey }
  if ('appToken' in owner) return { owner_kind: 'app_token', owner: owner.appToken }
  return { owner_kind: 'admin', owner: 0 }
}

function isOwner(row: WebSessionRow, owner: WebSessionOwner): boolean {
  const wanted = ownerOf(owner)
  return row.ownerKind === wanted.owner_kind && row.owner === wanted.owner
}
