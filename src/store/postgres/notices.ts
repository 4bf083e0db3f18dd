import { managementApplication } from '../../domain/endpoint.ts'
import {
  type Concerned,
  type Notice,
  type NoticeType,
  noticeAudit,
  noticeData,
  type StoredNotice,
} from '../../domain/notice.ts'
import type { Notices } from '../notices.ts'
import { integers, texts } from './arrays.ts'
import { auditAppender } from './auditing.ts'
import type { Database } from './database.ts'
import { sqlNow } from './server-time.ts'
import type { Run, Statement } from './sessions.ts'

const selectConcerned: Statement = {
  name: 'notice-concerned',
  text: `
    select app.key as app, app.id as "appId", app.uid as "appUid",
           endpoint.key as endpoint, endpoint.id as "endpointId", endpoint.uid as "endpointUid"
      from endpoint join application as app on app.key = endpoint.app where endpoint.key = any ($1::bigint[])`,
}
const selectListener: Statement = {
  name: 'notice-listener',
  text: `select 1 from endpoint where app = ${managementApplication} and deleted_at is null limit 1`,
}
const insertNotices: Statement = {
  name: 'insert-notices',
  text: `
    insert into notice (at, type, app, endpoint, message, data)
    select ${sqlNow}, type, app, endpoint, message, data::json
      from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
             as n (type, app, endpoint, message, data)`,
}
const selectNotices: Statement = {
  name: 'list-notices',
  text: 'select key, at, type, app, endpoint, message, data from notice order by key limit $1',
}
const deleteNotices: Statement = {
  name: 'remove-notices',
  text: 'delete from notice where key = any ($1::bigint[])',
}

/** What operators are to be told. */
export function notices({ durable }: Database): Notices {
  return {
    listNotices: (limit) => durable.run<StoredNotice>(selectNotices, [limit]),

    async removeNotices(keys) {
      if (keys.length > 0) await durable.run(deleteNotices, [integers(keys)])
    },
  }
}

/**
 * Makes what writes notices, and the entries in the audit log that go with them, within the transaction that is open. The
 * log's lock is the last that a transaction takes: this comes last.
 */
export function noticeWriter({ context }: Pick<Database, 'context'>) {
  const appendAudit = auditAppender(context)

  return async (run: Run, given: readonly Notice[]): Promise<void> => {
    const keys = integers(given.map((notice) => notice.endpoint))
    const found = await run<Concerned>(selectConcerned, [keys])
    const concerned = new Map(found.map((row) => [row.endpoint, row]))
    const known = given.flatMap((notice) => {
      const whom = concerned.get(notice.endpoint)
      return whom === undefined ? [] : [{ notice, whom }]
    })
    if (known.length === 0) return
    await run(insertNotices, [
      texts(known.map(({ notice }) => notice.type)),
      integers(known.map(({ whom }) => whom.app)),
      integers(known.map(({ notice }) => notice.endpoint)),
      integers(known.map(({ notice }) => notice.message ?? null)),
      texts(known.map(({ notice, whom }) => JSON.stringify(noticeData(notice, whom)))),
    ])
    for (const { notice, whom } of known) {
      const entry = noticeAudit(notice, whom)
      if (entry !== undefined) await appendAudit(run, entry)
    }
  }
}

/** Tells of a change of endpoints of an application, within the transaction that is open. */
export type TellOfChange = (
  run: Run,
  types: readonly NoticeType[],
  app: number,
  endpoints: readonly number[],
) => Promise<void>

/** Makes what writes notices of changes that somebody asked for: there may be very many, so only where somebody listens. */
export function changeTeller(database: Pick<Database, 'context'>): TellOfChange {
  const write = noticeWriter(database)

  return async (run, types, app, endpoints) => {
    if (app === managementApplication || (await run(selectListener)).length === 0) return
    const notices = endpoints.flatMap((endpoint) => types.map((type) => ({ type, endpoint, data: {} })))
    await write(run, notices)
  }
}
