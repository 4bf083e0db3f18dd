import { among, deleteFound } from '../../store/sql/dialect.ts'
import type { Methods, Port } from '../../store/sql/port.ts'
import { columnsOf, snakeCase, statement } from '../../store/sql/statement.ts'
import type { Inbox, InboxRow, RefusedRow } from './store.ts'

// The three lean on sluice_inbox_waiting: one seek for each name, one range of a name's rows.
const nextApp = (after: string) =>
  `select app from sluice_inbox where refused_at is null and app > ${after} order by app limit 1`
const selectApps = statement<{ app: string }>('inbox-apps')`
  with recursive walk (app, n) as (
    select first.app, 1 from (${nextApp('cast(:after as text)')}) as first
    union all
    select (${nextApp('walk.app')}), n + 1 from walk where walk.app is not null and n < cast(:limit as integer)
  )
  select app from walk where app is not null`
const selectSizes = statement<{ id: number; bytes: number }>('inbox-sizes')`
  select id, octet_length(payload) as bytes
    from sluice_inbox where refused_at is null and app = :app order by id limit :limit`
const selectRows = statement<InboxRow>('inbox-rows')`
  select id, event_type as "eventType", case when octet_length(payload) <= cast(:largest as integer) then payload end as payload,
         options
    from sluice_inbox where ${among('id', ':ids')} and refused_at is null order by id`
const refuseRow = statement('refuse-inbox-row')`
  update sluice_inbox set refused_at = :now, code = :code, error = :error where id = :id and refused_at is null
  returning id`

// The others lean on sluice_inbox_refused.
const refusedColumns = columnsOf<RefusedRow>(
  snakeCase('id', 'app', 'eventType', 'code', 'error', 'createdAt', 'refusedAt'),
)
const selectRefused = statement<RefusedRow>('refused-inbox-rows')`
  select ${refusedColumns} from sluice_inbox where refused_at is not null order by refused_at desc limit :limit`
const countRefused = statement<{ count: number }>('count-refused-inbox-rows')`
  select count(*) as count from (select 1 from sluice_inbox where refused_at is not null limit :limit) as some_rows`
const countWaiting = statement<{ count: number; oldest: number | null; now: number }>('count-inbox-rows')`
  select count(*) as count, min(created_at) as oldest, :now as now
    from (select created_at from sluice_inbox where refused_at is null order by app, id limit :limit) as some_rows`
const retryRows = statement<{ app: string }>('retry-inbox-rows')`
  update sluice_inbox set refused_at = null, code = null, error = null
   where refused_at is not null and ${among('id', ':ids')} returning app`
const retryAll = statement<{ app: string }>('retry-inbox')`
  update sluice_inbox set refused_at = null, code = null, error = null where refused_at is not null returning app`
const sweepRefused = statement('sweep-inbox')`
  ${deleteFound('sluice_inbox', 'id', 'where refused_at < :now - cast(:age as bigint) order by refused_at limit :limit')}`

/** Rows that other programs insert. */
export function inbox(port: Port): Methods<Inbox> {
  return {
    *inboxApps(after, limit) {
      return (yield* port.all(selectApps, { after, limit })).map(({ app }) => app)
    },

    *inboxRows(app, limit, bytes, largest) {
      const ids: number[] = []
      let total = 0
      for (const row of yield* port.all(selectSizes, { app, limit })) {
        if (row.bytes <= largest) total += row.bytes
        if (total > bytes && ids.length > 0) break
        ids.push(row.id)
      }
      return ids.length === 0 ? [] : yield* port.all(selectRows, { ids, largest })
    },

    refuseInboxRow: (id, { code, error }) => port.transaction((sql) => sql.any(refuseRow, { id, code, error })),

    refusedRows: (limit) => port.all(selectRefused, { limit }),

    *countInbox(limit) {
      const row = yield* port.first(countWaiting, { limit })
      const refused = yield* port.first(countRefused, { limit })
      const oldestMs = row?.oldest == null ? null : Math.max(0, row.now - row.oldest)
      return { waiting: row?.count ?? 0, oldestMs, refused: refused?.count ?? 0 }
    },

    *retryInbox(ids) {
      return yield* port.transaction(function* (sql) {
        const retried = ids === null ? yield* sql.count(retryAll) : yield* sql.count(retryRows, { ids })
        if (retried > 0) yield* sql.inboxFilled()
        return retried
      })
    },

    sweepInbox: (ageMs, limit) => port.relaxed.count(sweepRefused, { age: ageMs, limit }),
  }
}
