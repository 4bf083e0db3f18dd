import { type AlertChange, announcementOf, type StoredAlert } from '../../domain/alert.ts'
import { AppError } from '../../domain/app-error.ts'
import { decodeKey } from '../../domain/ids.ts'
import { type Alerts, type StoredSilence, silencesLimit } from '../alerts.ts'
import { writeServerNotice } from './notices.ts'
import { insertNew, type Methods, type Port, type Sql, type Work } from './port.ts'
import { statement } from './statement.ts'

const selectAlerts = statement<StoredAlert>(
  'alerts',
  'select rule, subject, version, state from alert order by rule, subject',
  { json: ['state'] },
)
const insertAlert = statement(
  'insert-alert',
  ({ json }) => `
    insert into alert (rule, subject, version, state) values (:rule, :subject, 1, ${json(':state')})
    on conflict (rule, subject) do nothing returning rule`,
)
const updateAlert = statement(
  'update-alert',
  ({ json }) => `
    update alert set version = version + 1, state = ${json(':state')}
     where rule = :rule and subject = :subject and version = :version returning rule`,
)
const deleteAlert = statement(
  'delete-alert',
  'delete from alert where rule = :rule and subject = :subject and version = :version returning rule',
)

const silenceColumns = `id, rule, subject, from_at as "from", until_at as "until", reason, created_by as "createdBy",
                        created_at as "createdAt"`
const selectSilences = statement<StoredSilence>(
  'alert-silences',
  `select ${silenceColumns} from alert_silence where until_at > :now order by key`,
)
const countSilences = statement<{ count: number }>(
  'count-alert-silences',
  'select count(*) as count from alert_silence where until_at > :now',
)
const insertSilence = statement<StoredSilence>(
  'insert-alert-silence',
  `insert into alert_silence (key, id, rule, subject, from_at, until_at, reason, created_by, created_at)
   values (:key, :id, cast(:rule as text), cast(:subject as text), :now + cast(:starts_in_ms as bigint),
           :now + cast(:ends_in_ms as bigint), :reason, :created_by, :now)
   on conflict (key) do nothing returning ${silenceColumns}`,
)
const sweepSilences = statement('sweep-alert-silences', 'delete from alert_silence where until_at <= :now')
const deleteSilence = statement(
  'delete-alert-silence',
  'delete from alert_silence where key = :key and id = :id and until_at > :now returning key',
)

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
        yield* sql.all(sweepSilences)
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
      return (yield* port.transaction((sql) => sql.first(deleteSilence, { key, id }))) !== undefined
    },
  }
}

/** Stores one change; answers whether the alert was as the change expects it. */
function* store(sql: Sql, { rule, subject, version, state }: AlertChange): Work<boolean> {
  const key = { rule, subject, version }
  if (state === null) return (yield* sql.first(deleteAlert, key)) !== undefined
  const values = { ...key, state: JSON.stringify(state) }
  return (yield* sql.first(version === 0 ? insertAlert : updateAlert, values)) !== undefined
}
