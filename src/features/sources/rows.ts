import { isSame } from '../../domain/field.ts'
import { decodeKey, type Identity } from '../../domain/ids.ts'
import { among, deleteFound, probe } from '../../store/sql/dialect.ts'
import { conflictOnUid, findNamed, listNamed, namedTable } from '../../store/sql/named-rows.ts'
import { insertNew, type Methods, type Port, type Sql, type Work } from '../../store/sql/port.ts'
import {
  columnsOf,
  parameters,
  replacements,
  type Shape,
  snakeCase,
  statement,
  toJson,
  type Values,
  valuesOf,
} from '../../store/sql/statement.ts'
import type { StoreContext } from '../../store/store.ts'
import { openValue, type SealedPlace, sealValue, unlessDamaged, type Vault } from '../../store/vault.ts'
import { lockForOneMore } from '../applications/rows.ts'
import { type ArrivalSample, type ArrivalSums, type Source, sourcesPerApp } from './rules.ts'
import { type ArrivingSource, changedSource, type NewSource, type RefusingSource, type Sources } from './store.ts'

/** The fields of a source that hold secrets. A setting may be one, such as Meta's verify token. */
export const sealedSourceFields = ['settings', 'secrets', 'tokens'] as const
export type SealedSourceField = (typeof sealedSourceFields)[number]

/** The fields that making and changing a source sets, and their columns. */
const settable = {
  ...snakeCase('uid', 'name', 'provider', 'settings', 'secrets', 'tokens', 'disabled', 'metadata'),
  ...snakeCase('ingestType', 'ownsApp'),
}
const others = snakeCase('key', 'id', 'app', 'createdAt', 'updatedAt')
const columns = columnsOf<Omit<Source, 'damaged'>>({ ...settable, ...others })
/** A source as it is stored. */
type SourceRow = Omit<Source, SealedSourceField> & Readonly<Record<SealedSourceField, unknown>>
const shape: Shape<SourceRow> = {
  json: ['metadata'],
  flags: ['disabled', 'ownsApp'],
  sealed: ['settings', 'secrets', 'tokens'],
}

const table = namedTable<SourceRow>('source', columns, Object.values(settable), shape)
const selectArriving = statement<SourceRow & { appId: string | null }>('arriving-source', shape)`
  select ${columns}, (select id from application where application.key = source.app and deleted_at is null limit 1) as "appId"
    from source where key = :key`
// Leans on source_named.
const selectNamed = statement<SourceRow>('sources-named', shape)`select ${columns} from source where uid = :uid limit 2`
const deleteRowsOf = (table: string) =>
  statement(`delete-${table}-of`)`delete from ${table} where ${among('source', ':sources')} returning source`
const deleteSums = deleteRowsOf('source_arrivals')
const deleteSamples = deleteRowsOf('source_sample')
const selectSourcesOf = statement<{ key: number }>('sources-to-forget')`
  select key from source where app = :app order by key`
// Sources of a deleted application go at once, so that nothing arrives any more.
const deleteRowsOfApp = statement<{ key: number }>('delete-sources')`delete from source where app = :app returning key`

// A source that was deleted meanwhile gets no row.
const accepted = 'cast(:accepted as bigint)'
const refused = 'cast(:refused as bigint)'
const inRow = 'cast(:in_row as bigint)'
const addSums = statement('add-source-arrivals')`
  insert into source_arrivals (source, accepted, accepted_at, refused, refused_at, refused_in_row, refused_code, samples)
  select key, ${accepted}, case when ${accepted} > 0 then :now end, ${refused}, case when ${refused} > 0 then :now end,
         ${inRow}, cast(:code as text), 0
    from source where key = :source
  on conflict (source) do update set
    accepted = source_arrivals.accepted + ${accepted},
    accepted_at = case when ${accepted} > 0 then :now else source_arrivals.accepted_at end,
    refused = source_arrivals.refused + ${refused},
    refused_at = case when ${refused} > 0 then :now else source_arrivals.refused_at end,
    refused_in_row = case when ${accepted} > 0 then ${inRow} else source_arrivals.refused_in_row + ${inRow} end,
    refused_code = case when ${refused} > 0 then cast(:code as text) else source_arrivals.refused_code end`
// Only a source with sums has samples.
const takeSlot = statement<{ samples: number }>('take-sample-slot')`
  update source_arrivals set samples = samples + 1 where source = :source returning samples`
const sampled = ['code', 'reason', 'method', 'query', 'address', 'headers', 'body', 'bytes', 'unsampled'] as const
const sampleColumns = columnsOf<ArrivalSample>(snakeCase('at', ...sampled))
const putSample = statement('put-source-sample')`
  insert into source_sample (source, slot, at, ${sampled.join(', ')})
  values (:source, :slot, :now, ${parameters(sampled)})
  on conflict (source, slot) do update set ${replacements(['at', ...sampled])}`
// Those of a time when more were kept.
const dropSlots = statement('drop-sample-slots')`delete from source_sample where source = :source and slot >= :keep`
const selectSamples = statement<ArrivalSample>('source-samples', { json: ['headers'] })`
  select ${sampleColumns} from source_sample where source = :source`
// Leans on source_sample_at.
const sweepOldSamples = statement('sweep-source-samples')`
  ${deleteFound('source_sample', 'source, slot', 'where at < :now - cast(:age as bigint) order by at limit :limit')}`
const sumsColumns = columnsOf<ArrivalSums>(
  snakeCase('accepted', 'acceptedAt', 'refused', 'refusedAt', 'refusedInRow', 'refusedCode'),
)
const selectSums = statement<ArrivalSums & { source: number }>('source-arrivals')`
  select source, ${sumsColumns} from source_arrivals where ${among('source', ':sources')}`
// Leans on source_arrivals_refused. A source that is disabled refuses on purpose.
const selectRefusing = statement<RefusingSource>('refusing-sources')`
  select source.key, source.app, source.id, source.uid, source.name, source.provider, ${sumsColumns},
         (select id from application where application.key = source.app limit 1) as "appId"
    from (select * from source_arrivals
           where refused_in_row > 0 and refused_in_row >= cast(:refusals as bigint) and refused_at > :now - cast(:since as bigint)
             and (accepted_at is null or accepted_at < :now - cast(:since as bigint))
           order by refused_at desc limit :limit) as refusing
    ${probe('source', 'source.key = refusing.source and not source.disabled')}`

/** URLs that take webhooks of other senders in. */
export function sources(port: Port): Methods<Sources> {
  const { vault, log } = port.context
  const opened = <Row extends SourceRow>(row: Row) => toSource(row, vault, log)

  return {
    *createSource(app, input, tokenOf, atMost = sourcesPerApp) {
      return yield* conflictOnUid(port, input, () =>
        port.transaction(function* (sql) {
          yield* lockForOneMore(sql, app, table.count, atMost, 'sources', 'maxSourcesPerApp')
          const at = yield* sql.now()
          const times = { createdAt: at, updatedAt: at }
          const made = { ingestType: null, ownsApp: false, ...input, app, ...times }
          const withToken = (key: number) => ({ ...made, key, tokens: [{ secret: tokenOf(key), expiresAt: null }] })
          let source = withToken(0)
          const valuesFor = ({ key }: Identity) => {
            source = withToken(key)
            return { ...settableValues(source, vault), app, at }
          }
          const { id } = yield* insertNew(sql, 'src', table.insert, valuesFor)
          return { ...source, id }
        }),
      )
    },

    *findSource(app, ref) {
      const row = yield* findNamed(port, table, decodeKey('src', ref), app, ref)
      return row && opened(row)
    },

    *sourceAt(key) {
      const row = yield* port.first(selectArriving, { key })
      return row === undefined || row.appId === null ? undefined : (opened(row) as ArrivingSource)
    },

    *sourcesNamed(uid) {
      return (yield* port.all(selectNamed, { uid })).map(opened)
    },

    listSources: (app, page) => listNamed(port, table, app, page, opened),

    *updateSource(app, key, change) {
      const named = { uid: null as string | null }
      return yield* conflictOnUid(port, named, () =>
        port.transaction(function* (sql) {
          // A change of nothing locks and writes nothing, so that it leaves no audit row either.
          const stored = yield* sql.first(table.byKey, { key })
          if (stored?.app !== app) return undefined
          const known = opened(stored)
          if (isSame(changedSource(known, change, yield* sql.now()), known)) return known
          const row = yield* sql.first(table.locked, { key })
          if (row === undefined) return undefined
          const now = yield* sql.now()
          const after = { ...changedSource(opened(row), change, now), updatedAt: Math.max(now, row.updatedAt) }
          named.uid = after.uid
          yield* sql.run(table.update, { ...settableValues(after, vault, row), key, at: after.updatedAt })
          return after
        }),
      )
    },

    *deleteSource(app, key) {
      return yield* port.transaction(function* (sql) {
        if (!(yield* sql.any(table.remove, { app, key }))) return false
        yield* deleteArrivals(sql, [key])
        return true
      })
    },

    *noteArrivals(counts, samples, keep) {
      yield* port.relaxed.transaction(function* (sql) {
        // In one order, so that two processes never wait for each other's rows.
        for (const count of [...counts].sort((a, b) => a.source - b.source)) {
          const { source, accepted, refused, refusedInRow, refusedCode } = count
          yield* sql.run(addSums, { source, accepted, refused, in_row: refusedInRow, code: refusedCode })
        }
        for (const { headers, ...sample } of keep === 0 ? [] : samples) {
          const { source } = sample
          const taken = yield* sql.first(takeSlot, { source })
          if (taken === undefined) continue
          yield* sql.run(putSample, { ...sample, headers: toJson(headers), slot: taken.samples % keep })
          yield* sql.run(dropSlots, { source, keep })
        }
      })
    },

    *arrivalSums(keys) {
      if (keys.length === 0) return new Map()
      const rows = yield* port.all(selectSums, { sources: keys })
      return new Map(rows.map(({ source, ...sums }) => [source, sums]))
    },

    *arrivalSamples(source, limit) {
      const samples = yield* port.all(selectSamples, { source })
      return samples.sort((a, b) => b.at - a.at).slice(0, limit)
    },

    sweepSamples: (ageMs, limit) => port.relaxed.count(sweepOldSamples, { age: ageMs, limit }),

    refusingSources: (sinceMs, refusals, limit) => port.all(selectRefusing, { since: sinceMs, refusals, limit }),
  }
}

function* deleteArrivals(sql: Sql, sources: readonly number[]): Work<void> {
  yield* sql.run(deleteSums, { sources })
  yield* sql.run(deleteSamples, { sources })
}

/** Deletes the sources of an application and what arrived at them. */
export function* deleteSourcesOf(sql: Sql, app: number): Work<void> {
  const rows = yield* sql.all(deleteRowsOfApp, { app })
  yield* deleteArrivals(
    sql,
    rows.map(({ key }) => key),
  )
}

/**
 * Deletes the samples of refused arrivals at the application's sources; answers how many. Refused arrivals are not indexed,
 * and may name any person. There are a few per source.
 */
export function* forgetSamples(sql: Sql, app: number): Work<number> {
  const sources = (yield* sql.all(selectSourcesOf, { app })).map(({ key }) => key)
  return sources.length === 0 ? 0 : yield* sql.count(deleteSamples, { sources })
}

type Sealable = Omit<Source, 'id'>

/** The values of the settable columns. Damaged records that are not replaced stay as they are `stored`. */
function settableValues(source: Sealable, vault: Vault, stored?: Pick<SourceRow, SealedSourceField>): Values {
  const isDamaged = stored !== undefined && source.damaged === true
  const sealed = sealedSourceFields.map((field) => [
    field,
    { sealed: isDamaged ? stored[field] : sealValue(vault, source[field], sourcePlace(source, field)) },
  ])
  return { ...valuesOf(source as NewSource & Sealable, settable), ...Object.fromEntries(sealed) }
}

/** The source of a row. Secrets that do not open read as none; the log has a line, and the source is damaged. */
function toSource<Row extends SourceRow>(row: Row, vault: Vault, log: StoreContext['log']) {
  const open = <Field extends SealedSourceField>(field: Field) =>
    openValue<Source[Field]>(vault, row[field], sourcePlace(row, field))
  const openAll = () => ({ settings: open('settings'), secrets: open('secrets'), tokens: open('tokens') })
  const opened = unlessDamaged(openAll, log, `nothing can arrive at ${row.id}`)
  return { ...row, ...(opened ?? { settings: {}, secrets: [], tokens: [], damaged: true as const }) }
}

/** The place of a sealed field of a source. Its key is no endpoint's, and neither is the name of the field. */
export function sourcePlace({ app, key }: Pick<Source, 'app' | 'key'>, field: SealedSourceField): SealedPlace {
  return { app, endpoint: key, field: `${field} of a source` }
}
