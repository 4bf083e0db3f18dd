import type { EpochMs } from '../../domain/clock.ts'
import { defined } from '../../domain/field.ts'
import type { Page, PageRequest } from '../../store/store.ts'
import type { ArrivalSample, ArrivalSums, Source } from './rules.ts'

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

export type NewSource = Pick<Source, 'uid' | 'name' | 'provider' | 'settings' | 'secrets' | 'disabled' | 'metadata'> &
  Partial<Pick<Source, 'ingestType' | 'ownsApp'>>

export type ChangedFields = Partial<Omit<NewSource, 'ingestType' | 'ownsApp'> & Pick<Source, 'tokens' | 'ingestType'>>
export type SourceChange = ChangedFields | ((source: Source, now: EpochMs) => ChangedFields)

export interface ArrivingSource extends Source {
  /** Its application's id. */
  readonly appId: string
}

/** Arrivals at a source since they were noted last. */
export interface ArrivalCount {
  readonly source: number
  readonly accepted: number
  readonly refused: number
  /** Of these, the refusals that came after the last one that was accepted. */
  readonly refusedInRow: number
  readonly refusedCode: string | null
}

export type NewSample = Omit<ArrivalSample, 'at'> & { readonly source: number }

export type RefusingSource = ArrivalSums &
  Pick<ArrivingSource, 'key' | 'app' | 'id' | 'uid' | 'name' | 'provider' | 'appId'>

/** The source with the given fields changed. Settings, secrets and tokens that are all set replace their damaged record. */
export function changedSource(before: Source, change: SourceChange, now: EpochMs): Source {
  const given = defined(typeof change === 'function' ? change(before, now) : change)
  const { damaged, ...whole } = before
  const isMended = given.settings !== undefined && given.secrets !== undefined && given.tokens !== undefined
  return { ...whole, ...(damaged && !isMended && { damaged }), ...given }
}
