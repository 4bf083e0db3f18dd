import type { EpochMs } from '../../domain/clock.ts'
import type { StoredSums, SumSpan } from './rules.ts'

/**
 * Sums of what happened, by the minute and by the hour, for the server, each application and each endpoint. Every process
 * writes rows of its own, always the whole sum since the start of that minute or hour: a row that is written again replaces
 * itself and never counts twice. Readers add the rows of all processes up.
 */
export interface History {
  /** Writes rows of one writer, all or none. Rows of applications and endpoints that no longer exist are left out. */
  writeHistory(writer: string, rows: readonly HistoryRow[]): Promise<void>
  /** Rows of one scope that begin at `from` or later and before `until`, by time, up to `limit`, behind `after`. */
  readHistory(range: HistoryRange, after: HistoryPlace | null, limit: number): Promise<ReadHistory>
  /** How many deliveries succeeded and attempts failed in each hour, at these endpoints or applications. */
  readOutcomes(scopes: readonly number[], from: EpochMs, until: EpochMs): Promise<HourOutcome[]>
  /**
   * Merges up to `limit` rows that began longer than `ageMs` ago, which no process writes any more, into one row for each
   * scope and time. Answers whether there are more.
   */
  foldHistory(ageMs: number, limit: number): Promise<boolean>
  /** Removes up to `limit` rows of this length that began longer than `ageMs` ago; answers how many. */
  dropHistory(span: SumSpan, ageMs: number, limit: number): Promise<number>
}

export interface HistoryRow {
  readonly scope: number
  readonly span: SumSpan
  /** The start of the minute or hour. */
  readonly at: EpochMs
  readonly sums: StoredSums
}

export interface HistoryRange {
  readonly scope: number
  readonly span: SumSpan
  readonly from: EpochMs
  readonly until: EpochMs
}

/** A place among the rows of a scope. */
export interface HistoryPlace {
  readonly at: EpochMs
  readonly writer: string
}

export interface ReadHistory {
  readonly rows: readonly { readonly at: EpochMs; readonly sums: StoredSums }[]
  /** Where to go on; null behind the last row. */
  readonly next: HistoryPlace | null
}

export interface HourOutcome {
  readonly scope: number
  readonly at: EpochMs
  readonly delivered: number
  readonly failed: number
}

/** The writer of a row that merges those of several writers. */
export const foldedWriter = ''
