import { thingsOf } from '../../noun/rows.ts'
import { among, deleteFound, probe } from '../../store/sql/dialect.ts'
import type { Methods, Port, Sql, Work } from '../../store/sql/port.ts'
import { columnsOf, parameters, replacements, snakeCase, statement, toJson } from '../../store/sql/statement.ts'
import type { Page, PageRequest } from '../../store/store.ts'
import { type ArrivingSource, type NewSource, type Source, type SourceChange, source } from './noun.ts'
import type { ArrivalCount, ArrivalSample, ArrivalSums, NewSample } from './rules.ts'

/** URLs that take webhooks of other senders in, and what arrived at them. */
export interface Sources {
  /**
   * `tokenOf` makes the token of the URL from the key of the source. Rejects with AppError `conflict` when the uid is taken,
   * `quota_exceeded` when there are `atMost` already, and `not_found` when there is no such application.
   */
  createSource(app: number, input: NewSource, tokenOf: (key: number) => string, atMost?: number): Promise<Source>
  /** By id or uid, within the application. */
  findSource(app: number, ref: string): Promise<Source | undefined>
  /** By key, with the id of its application: for an arrival. */
  sourceAt(key: number): Promise<ArrivingSource | undefined>
  /** Up to two sources with this uid, in any application. */
  sourcesNamed(uid: string): Promise<readonly Source[]>
  /** The sources of an application, or of all with null. */
  listSources(app: number | null, page: PageRequest): Promise<Page<Source>>
  /** Changes the given fields; a function is given the source as it is stored, and the instant. */
  updateSource(app: number, key: number, change: SourceChange): Promise<Source | undefined>
  /** Answers whether there was one. Messages that arrived at it stay. */
  deleteSource(app: number, key: number): Promise<boolean>
  /**
   * Adds to the sums of sources, and keeps samples of refused arrivals, the `keep` newest of each source. A sample goes
   * with a count of its source.
   */
  noteArrivals(counts: readonly ArrivalCount[], samples: readonly NewSample[], keep: number): Promise<void>
  /** The sums of these sources by key; a source at which nothing arrived is left out. */
  arrivalSums(sources: readonly number[]): Promise<ReadonlyMap<number, ArrivalSums>>
  /** The samples of a source, the newest first. */
  arrivalSamples(source: number, limit: number): Promise<readonly ArrivalSample[]>
  /** Removes up to `limit` samples that are older than this; answers how many. */
  sweepSamples(ageMs: number, limit: number): Promise<number>
  /** Sources at which only refused arrivals came since `sinceMs` ago, at least `refusals` in a row; up to `limit`. */
  refusingSources(sinceMs: number, refusals: number, limit: number): Promise<readonly RefusingSource[]>
}

export type RefusingSource = ArrivalSums &
  Pick<ArrivingSource, 'key' | 'app' | 'id' | 'uid' | 'name' | 'provider' | 'appId'>

const rows = thingsOf<typeof source, Source>(source, { effect: (id) => `nothing can arrive at ${id}` })
const { columns, shape } = rows
const selectArriving = statement<Source & { appId: string | null }>('arriving-source', shape)`
  select ${columns}, (select id from application where application.key = source.app and deleted_at is null limit 1) as "appId"
    from source where key = :key`
// Leans on source_named.
const selectNamed = statement<Source>('sources-named', shape)`select ${columns} from source where uid = :uid limit 2`
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
  const stored = rows.on(port)

  return {
    createSource: (app, input, tokenOf, atMost) =>
      stored.create(app, atMost, (key) => {
        const tokens = [{ secret: tokenOf(key), expiresAt: null }]
        return { ingestType: null, ownsApp: false, ...input, tokens }
      }),
    findSource: stored.find,

    *sourceAt(key) {
      const row = yield* port.first(selectArriving, { key })
      return row === undefined || row.appId === null ? undefined : (stored.opened(row) as ArrivingSource)
    },

    *sourcesNamed(uid) {
      return (yield* port.all(selectNamed, { uid })).map(stored.opened)
    },

    listSources: stored.list,
    updateSource: (app, key, change) => stored.update(app, key, typeof change === 'function' ? change : () => change),

    *deleteSource(app, key) {
      return yield* port.transaction(function* (sql) {
        if (!(yield* stored.remove(sql, app, key))) return false
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
