import { managementApplication } from '../../domain/endpoint.ts'
import {
  type Concerned,
  type Notice,
  type NoticeType,
  noticeAudit,
  noticeData,
  type StoredNotice,
} from '../../domain/notice.ts'
import type { Notices } from '../maintenance.ts'
import type { StoreContext } from '../store.ts'
import { appendAudit } from './auditing.ts'
import type { Methods, Port, Sql, Work } from './port.ts'
import { statement } from './statement.ts'

// The application is a probe for one row: a join could read all applications for each endpoint.
const selectConcerned = statement<Concerned>(
  'notice-concerned',
  ({ among }) => `
    select app, key as endpoint, id as "endpointId", uid as "endpointUid",
           (select id from application where application.key = endpoint.app limit 1) as "appId",
           (select uid from application where application.key = endpoint.app limit 1) as "appUid"
      from endpoint where ${among('key', ':endpoints', 'bigint')}`,
)
// Leans on endpoint_app.
const selectSubscriber = statement(
  'notice-subscriber',
  `select 1 from endpoint where app = ${managementApplication} and deleted_at is null limit 1`,
)
const insertNotices = statement(
  'insert-notices',
  ({ rowsOf, json }) => `
    insert into notice (at, type, app, endpoint, message, data)
    select :now, type, app, endpoint, message, ${json('data')}
      from ${rowsOf(':notices', 'written', { type: 'text', app: 'bigint', endpoint: 'bigint', message: 'bigint', data: 'text' })}`,
)
const selectNotices = statement<StoredNotice>(
  'list-notices',
  'select key, at, type, app, endpoint, message, data from notice order by key limit :limit',
  { json: ['data'] },
)
const deleteNotices = statement(
  'remove-notices',
  ({ among }) => `delete from notice where ${among('key', ':keys', 'bigint')}`,
)

/** Notices that wait to be sent to operators. */
export function notices(port: Port): Methods<Notices> {
  return {
    *listNotices(limit) {
      return yield* port.all(selectNotices, { limit })
    },

    *removeNotices(keys) {
      if (keys.length > 0) yield* port.transaction((sql) => sql.all(deleteNotices, { keys }))
    },
  }
}

type Context = Pick<StoreContext, 'randomText'>

/**
 * Writes notices, and the audit entries that go with them, within the transaction that is open. The lock of the audit log
 * is the last that a transaction takes, so this comes last.
 */
export function* writeNotices(sql: Sql, context: Context, notices: readonly Notice[]): Work<void> {
  if (notices.length === 0) return
  const found = yield* sql.all(selectConcerned, { endpoints: notices.map((notice) => notice.endpoint) })
  const concerned = new Map(found.map((row) => [row.endpoint, row]))
  const known = notices.flatMap((notice) => {
    const its = concerned.get(notice.endpoint)
    return its === undefined ? [] : [{ notice, its }]
  })
  if (known.length === 0) return
  const rows = known.map(({ notice: { type, endpoint, message = null, data }, its }) => ({
    type,
    app: its.app,
    endpoint,
    message,
    data: JSON.stringify(noticeData({ type, endpoint, data }, its)),
  }))
  yield* sql.all(insertNotices, { notices: rows })
  for (const { notice, its } of known) {
    const entry = noticeAudit(notice, its)
    if (entry !== undefined) yield* appendAudit(sql, context, entry)
  }
}

/**
 * Writes notices of changes of an application's endpoints that a caller asked for, within the transaction that is open.
 * There may be very many, so nothing is written unless the management application has an endpoint.
 */
export function* writeChangeNotices(
  sql: Sql,
  context: Context,
  types: readonly NoticeType[],
  app: number,
  endpoints: readonly number[],
): Work<void> {
  if (app === managementApplication || (yield* sql.first(selectSubscriber)) === undefined) return
  const notices = endpoints.flatMap((endpoint) => types.map((type) => ({ type, endpoint, data: {} })))
  yield* writeNotices(sql, context, notices)
}
