import type { EpochMs } from '../../domain/clock.ts'
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
import type { Connection, Synchronous } from './connection.ts'

const selectConcerned = `
  select app.key as app, app.id as appId, app.uid as appUid,
         endpoint.key as endpoint, endpoint.id as endpointId, endpoint.uid as endpointUid
  from endpoint join application as app on app.key = endpoint.app where endpoint.key = ?`
const selectListener = `select 1 from endpoint where app = ${managementApplication} and deleted_at is null limit 1`
const insertNotice = 'insert into notice (at, type, app, endpoint, message, data) values (?, ?, ?, ?, ?, ?)'
const selectNotices = 'select * from notice order by key limit ?'
const deleteNotice = 'delete from notice where key = ?'

type NoticeRow = Omit<StoredNotice, 'data'> & { readonly data: string }

/** What operators are to be told. */
export function notices(connection: Connection): Synchronous<Notices> {
  const list = connection.prepare<NoticeRow>(selectNotices)
  const remove = connection.prepare(deleteNotice)

  return {
    listNotices(limit): StoredNotice[] {
      return list.all(limit).map((row) => ({ ...row, data: JSON.parse(row.data) }))
    },

    removeNotices(keys): void {
      if (keys.length === 0) return
      connection.transaction(() => {
        for (const key of keys) remove.run(key)
      })
    },
  }
}

/** Makes what writes a notice, and the entry in the audit log that goes with it, within the transaction that is open. */
export function noticeWriter(connection: Connection): (notice: Notice, now: EpochMs) => void {
  const whom = connection.prepare<Concerned>(selectConcerned)
  const insert = connection.prepare(insertNotice)

  return (notice, now) => {
    const concerned = whom.get(notice.endpoint)
    if (concerned === undefined) return
    const data = JSON.stringify(noticeData(notice, concerned))
    insert.run(now, notice.type, concerned.app, notice.endpoint, notice.message ?? null, data)
    const entry = noticeAudit(notice, concerned)
    if (entry !== undefined) connection.appendAudit?.(entry)
  }
}

/** Tells of a change of an application's endpoint, within the transaction that is open. */
export type TellOfChange = (types: readonly NoticeType[], app: number, endpoint: number, now: EpochMs) => void

/** Makes what writes notices of changes that somebody asked for: there may be very many, so only where somebody listens. */
export function changeTeller(connection: Connection): TellOfChange {
  const listener = connection.prepare<unknown>(selectListener)
  const write = noticeWriter(connection)

  return (types, app, endpoint, now) => {
    if (app === managementApplication || listener.get() === undefined) return
    for (const type of types) write({ type, endpoint, data: {} }, now)
  }
}
