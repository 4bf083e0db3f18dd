import { AppError } from '../../domain/app-error.ts'
import { decodeKey } from '../../domain/ids.ts'
import { Matcher } from '../../domain/match.ts'
import { type Alerts, type Notices, type StoredSilence, silencesLimit } from '../../store/maintenance.ts'
import { among, forShare, json, rowsOf } from '../../store/sql/dialect.ts'
import { insertNew, type Methods, type Port, type Sql, type Work } from '../../store/sql/port.ts'
import { statement } from '../../store/sql/statement.ts'
import type { StoreContext } from '../../store/store.ts'
import { type AlertChange, announcementOf, type StoredAlert } from '../alerts/rules.ts'
import { appendAudit } from '../audit/rows.ts'
import { managementApplication } from '../endpoints/rules.ts'
import {
  type Concerned,
  frequentNotices,
  isFrequent,
  type Notice,
  type NoticeType,
  noApplication,
  noticeAudit,
  noticeData,
  type ServerNoticeType,
  type StoredNotice,
} from './rules.ts'

// The application is a probe for one row: a join could read all applications for each endpoint.
const selectConcerned = statement<Concerned>('notice-concerned')`
  select app, key as endpoint, id as "endpointId", uid as "endpointUid",
         (select id from application where application.key = endpoint.app limit 1) as "appId",
         (select uid from application where application.key = endpoint.app limit 1) as "appUid"
    from endpoint where ${among('key', ':endpoints')}`
// Leans on endpoint_app.
const selectSubscriber = statement('notice-subscriber')`
  select 1 from endpoint where app = ${managementApplication} and deleted_at is null limit 1`
// A subscription that is being made waits for the change, or the change sees it.
const lockSubscriptions = statement('lock-notice-subscriptions')`
  select key from application where key = ${managementApplication} ${forShare}`
const selectVersion = statement<{ version: number }>('notice-subscriptions-version')`
  select version from application where key = ${managementApplication}`
// One statement, so that the version belongs to the endpoints. Leans on endpoint_app.
const selectSubscribers = statement<{ version: number; event_types: string[] | null; channels: string[] | null }>(
  'notice-subscribers',
  { json: ['event_types', 'channels'] },
)`
  select a.version, e.event_types, e.channels
    from application as a join endpoint as e on e.app = a.key and e.deleted_at is null
   where a.key = ${managementApplication}`
const insertNotices = statement('insert-notices')`
  insert into notice (at, type, app, endpoint, message, data)
  select :now, type, app, endpoint, message, ${json('data')}
    from ${rowsOf(':notices', 'written', { type: 'text', app: 'bigint', endpoint: 'bigint', message: 'bigint', data: 'text' })}`
const selectNotices = statement<StoredNotice>('list-notices', { json: ['data'] })`
  select key, at, type, app, endpoint, message, data from notice order by key limit :limit`
const deleteNotices = statement('remove-notices')`delete from notice where ${among('key', ':keys')}`

/** Notices that wait to be sent to operators. */
export function notices(port: Port): Methods<Notices> {
  return {
    listNotices: (limit) => port.all(selectNotices, { limit }),

    *removeNotices(keys) {
      if (keys.length > 0) yield* port.transaction((sql) => sql.all(deleteNotices, { keys }))
    },
  }
}

/**
 * The frequent notices to which operational webhooks subscribe, remembered with the version of the subscriptions. Settling
 * compares that version within its transaction, so no notice is missed once a subscription is answered, and where nothing
 * is subscribed to, settling costs one probe more and no write.
 */
export class NoticeInterest {
  #version = -1
  #types: ReadonlySet<NoticeType> = new Set()

  /** The version that these notices depend on, for `keep`; null when every one is written whatever is subscribed to. */
  versionFor(notices: readonly Notice[]): number | null {
    return notices.some(isFrequent) ? this.#version : null
  }

  /** The notices to be written, by the subscriptions that are known. */
  keep(notices: readonly Notice[]): readonly Notice[] {
    return notices.filter((notice) => !isFrequent(notice) || this.#types.has(notice.type))
  }

  /** As `keep`, by the subscriptions that the open transaction sees. */
  *keepNow(sql: Sql, notices: readonly Notice[]): Work<readonly Notice[]> {
    const known = this.versionFor(notices)
    if (known !== null && (yield* sql.first(selectVersion))?.version !== known) yield* this.read(sql)
    return this.keep(notices)
  }

  *read(sql: Sql): Work<void> {
    const version = (yield* sql.first(selectVersion))?.version ?? -1
    const rows = yield* sql.all(selectSubscribers)
    const matcher = new Matcher(
      rows.map((row, endpoint) => ({ endpoint, eventTypes: row.event_types, channels: row.channels })),
    )
    this.#version = rows[0]?.version ?? version
    this.#types = new Set(frequentNotices.filter((type) => matcher.match(type, null).length > 0))
  }
}

type NoticeContext = Pick<StoreContext, 'randomText'>

/**
 * Writes notices, and the audit entries that go with them, within the transaction that is open. The lock of the audit log
 * is the last that a transaction takes, so this comes last.
 */
export function* writeNotices(sql: Sql, context: NoticeContext, notices: readonly Notice[]): Work<void> {
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
  yield* sql.run(insertNotices, { notices: rows })
  for (const { notice, its } of known) {
    const entry = noticeAudit(notice, its)
    if (entry !== undefined) yield* appendAudit(sql, context, entry)
  }
}

/** Writes a notice about the server within the transaction that is open. */
function* writeServerNotice(sql: Sql, type: ServerNoticeType, data: Readonly<Record<string, unknown>>): Work<void> {
  const row = { type, app: noApplication, endpoint: noApplication, message: null, data: JSON.stringify(data) }
  yield* sql.run(insertNotices, { notices: [row] })
}

/**
 * Writes notices of changes of an application's endpoints that a caller asked for, within the transaction that is open.
 * There may be very many, so nothing is written unless the management application has an endpoint.
 */
export function* writeChangeNotices(
  sql: Sql,
  context: NoticeContext,
  types: readonly NoticeType[],
  app: number,
  endpoints: readonly number[],
): Work<void> {
  if (app === managementApplication) return
  yield* sql.first(lockSubscriptions)
  if (!(yield* sql.any(selectSubscriber))) return
  const notices = endpoints.flatMap((endpoint) => types.map((type) => ({ type, endpoint, data: {} })))
  yield* writeNotices(sql, context, notices)
}

const selectAlerts = statement<StoredAlert>('alerts', { json: ['state'] })`
  select rule, subject, version, state from alert order by rule, subject`
const insertAlert = statement('insert-alert')`
  insert into alert (rule, subject, version, state) values (:rule, :subject, 1, ${json(':state')})
  on conflict (rule, subject) do nothing returning rule`
const updateAlert = statement('update-alert')`
  update alert set version = version + 1, state = ${json(':state')}
   where rule = :rule and subject = :subject and version = :version returning rule`
const deleteAlert = statement('delete-alert')`
  delete from alert where rule = :rule and subject = :subject and version = :version returning rule`

const silenceColumns = `id, rule, subject, from_at as "from", until_at as "until", reason, created_by as "createdBy",
                        created_at as "createdAt"`
const selectSilences = statement<StoredSilence>('alert-silences')`
  select ${silenceColumns} from alert_silence where until_at > :now order by key`
const countSilences = statement<{ count: number }>('count-alert-silences')`
  select count(*) as count from alert_silence where until_at > :now`
const insertSilence = statement<StoredSilence>('insert-alert-silence')`
  insert into alert_silence (key, id, rule, subject, from_at, until_at, reason, created_by, created_at)
  values (:key, :id, cast(:rule as text), cast(:subject as text), :now + cast(:starts_in_ms as bigint),
          :now + cast(:ends_in_ms as bigint), :reason, :created_by, :now)
  on conflict (key) do nothing returning ${silenceColumns}`
const sweepSilences = statement('sweep-alert-silences')`delete from alert_silence where until_at <= :now`
const deleteSilence = statement('delete-alert-silence')`
  delete from alert_silence where key = :key and id = :id and until_at > :now returning key`

/** Alerts and silences. */
export function alerts(port: Port): Methods<Alerts> {
  return {
    *readAlerts() {
      const alerts = yield* port.all(selectAlerts)
      const silences = yield* port.all(selectSilences)
      return { now: yield* port.now(), alerts, silences }
    },

    *changeAlerts(changes) {
      if (changes.length === 0) return []
      return yield* port.transaction(function* (sql) {
        const stored: AlertChange[] = []
        for (const change of changes) {
          if (!(yield* store(sql, change))) continue
          stored.push(change)
          if (change.announce !== null)
            yield* writeServerNotice(sql, `alert.${change.announce}`, announcementOf(change))
        }
        return stored
      })
    },

    *addSilence({ rule, subject, startsInMs, lengthMs, reason, createdBy }) {
      return yield* port.transaction(function* (sql) {
        yield* sql.run(sweepSilences)
        const { count = 0 } = (yield* sql.first(countSilences)) ?? {}
        if (count >= silencesLimit) {
          throw new AppError('quota_exceeded', `There are ${silencesLimit} silences already; end one first.`)
        }
        const times = { starts_in_ms: Math.round(startsInMs), ends_in_ms: Math.round(startsInMs + lengthMs) }
        const values = { rule, subject, ...times, reason, created_by: createdBy }
        return yield* insertNew(sql, 'slnc', insertSilence, () => values)
      })
    },

    *endSilence(id) {
      const key = decodeKey('slnc', id)
      if (key === undefined) return false
      return yield* port.transaction((sql) => sql.any(deleteSilence, { key, id }))
    },
  }
}

/** Stores one change; answers whether the alert was as the change expects it. */
function* store(sql: Sql, { rule, subject, version, state }: AlertChange): Work<boolean> {
  const key = { rule, subject, version }
  if (state === null) return yield* sql.any(deleteAlert, key)
  const values = { ...key, state: JSON.stringify(state) }
  return yield* sql.any(version === 0 ? insertAlert : updateAlert, values)
}
