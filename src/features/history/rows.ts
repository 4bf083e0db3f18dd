import { among, deleteFound, deleteListed, json, lock, probe, rowsOf } from '../../store/sql/dialect.ts'
import type { Methods, Port, Sql, Work } from '../../store/sql/port.ts'
import { fragment, statement } from '../../store/sql/statement.ts'
import { indexed } from '../dead-letters/rows.ts'
import { hourMs, type StoredSums, type SumSpan, Sums, serverScope } from './rules.ts'
import { foldedWriter, type History, type HistoryRow } from './store.ts'

interface StoredRow extends HistoryRow {
  readonly writer: string
}

const key = 'scope, span, at, writer'
const timeFields = { scope: 'bigint', span: 'integer', at: 'bigint' } as const
const keyFields = { ...timeFields, writer: 'text' } as const

// A process may have counted for an endpoint that was deleted since: its rows are removed, and must not come back.
const writeRows = statement('write-history')`
  insert into history (${key}, sums)
  select scope, span, at, :writer, ${json('sums')}
    from ${rowsOf(':rows', 'listed', { ...timeFields, sums: 'text' })}
   where scope = ${serverScope}
      or (select 1 from endpoint where key = scope and deleted_at is null limit 1) = 1
      or (select 1 from application where key = scope and deleted_at is null limit 1) = 1
  on conflict (${key}) do update set sums = excluded.sums`
// A range of the primary key.
const selectRows = statement<Pick<StoredRow, 'at' | 'writer' | 'sums'>>('history', { json: ['sums'] })`
  select at, writer, sums from history
   where scope = :scope and span = :span and at < :until and (at, writer) > (:at, :writer)
   order by at, writer limit :limit`
// One range of the primary key for each scope.
const selectOutcomes = statement<{ scope: number; at: number; delivered: number | null; failed: number | null }>(
  'history-outcomes',
)`
  select scope, at, cast(sums ->> 'delivered' as bigint) as delivered, cast(sums ->> 'failed' as bigint) as failed
    from history
   where ${among('scope', ':scopes')} and span = ${hourMs} and at >= :from and at < :until`

// Leans on history_unfolded.
const selectUnfolded = statement<StoredRow>('unfolded-history', { json: ['sums'] })`
  select ${key}, sums from history
   where writer <> '' and at < :now - cast(:age_ms as bigint) order by at, scope limit :limit`
const selectFolded = statement<StoredRow>('folded-history', { json: ['sums'] })`
  select history.scope, history.span, history.at, history.writer, history.sums
    from ${rowsOf(':times', 'listed', timeFields)}
    ${probe(
      'history',
      `history.scope = listed.scope and history.span = listed.span and history.at = listed.at
       and history.writer = ''`,
    )}`
const lockFolding = statement('lock-history')`${lock('history')}`
const deleteRows = statement('delete-history')`${deleteListed('history', ':rows', keyFields)}`
// Leans on history_at.
const oldRows = fragment`
  where ${indexed('span')} = :span and ${indexed('at')} < :now - cast(:age_ms as bigint)
  order by ${indexed('at')} limit :limit`
const deleteOldRows = statement('delete-old-history')`${deleteFound('history', key, oldRows)}`
const deleteRowsOf = statement('delete-history-of')`
  ${deleteFound('history', key, 'where scope = :scope order by span, at, writer limit :limit')}`

/** Sums of what happened. */
export function history(port: Port): Methods<History> {
  return {
    *writeHistory(writer, rows) {
      if (rows.length > 0) yield* port.relaxed.run(writeRows, { writer, rows: rows.map(toListed) })
    },

    *readHistory({ from, ...range }, after, limit) {
      // No minute or hour begins at this instant.
      const before = Math.ceil(from / range.span) * range.span - 1
      const { at, writer } = after ?? { at: before, writer: foldedWriter }
      const rows = yield* port.relaxed.all(selectRows, { ...range, at, writer, limit })
      return {
        rows: rows.map(({ at, sums }) => ({ at, sums })),
        next: rows.length < limit ? null : (rows.at(-1) ?? null),
      }
    },

    *readOutcomes(scopes, from, until) {
      const rows = yield* port.relaxed.all(selectOutcomes, { scopes, from, until })
      return rows.map(({ delivered, failed, ...hour }) => ({ ...hour, delivered: delivered ?? 0, failed: failed ?? 0 }))
    },

    *foldHistory(ageMs, limit) {
      // Usually nothing is to be folded, and then no lock is needed.
      if (!(yield* port.relaxed.any(selectUnfolded, { age_ms: ageMs, limit: 1 }))) return false
      return yield* port.relaxed.transaction(function* (sql) {
        // Two processes that both lead for a moment would otherwise both make the first merged row of a time.
        yield* sql.run(lockFolding)
        const rows = yield* sql.all(selectUnfolded, { age_ms: ageMs, limit })
        const times = new Map<string, { readonly time: Time; readonly sums: Sums }>()
        for (const row of rows) addUp(times, row)
        for (const row of yield* sql.all(selectFolded, { times: [...times.values()].map(({ time }) => time) })) {
          addUp(times, row)
        }
        const folded = [...times.values()].map(({ time, sums }) => toListed({ ...time, sums: sums.toJSON() }))
        yield* sql.run(writeRows, { writer: foldedWriter, rows: folded })
        yield* sql.run(deleteRows, { rows: rows.map(({ writer, ...row }) => ({ ...timeOf(row), writer })) })
        return rows.length === limit
      })
    },

    dropHistory: (span, ageMs, limit) => port.relaxed.count(deleteOldRows, { span, age_ms: ageMs, limit }),
  }
}

/** Removes up to `limit` rows of a deleted application or endpoint; answers how many. */
export function* removeHistory(sql: Sql, scope: number, limit: number): Work<number> {
  return yield* sql.count(deleteRowsOf, { scope, limit })
}

interface Time {
  readonly scope: number
  readonly span: SumSpan
  readonly at: number
}

function timeOf({ scope, span, at }: Time): Time {
  return { scope, span, at }
}

function addUp(times: Map<string, { readonly time: Time; readonly sums: Sums }>, row: HistoryRow): void {
  const name = `${row.scope} ${row.span} ${row.at}`
  const known = times.get(name)
  if (known === undefined) times.set(name, { time: timeOf(row), sums: Sums.read(row.sums) })
  else known.sums.addStored(row.sums)
}

function toListed({ sums, ...row }: HistoryRow) {
  return { ...timeOf(row), sums: JSON.stringify(sums satisfies StoredSums) }
}
