import type { StoredNotice } from '../domain/notice.ts'

/**
 * What operators are to be told. A notice is written in the transaction that does what it tells of, and stays until
 * whoever sends it says that it was sent: it is told at least once.
 */
export interface Notices {
  /** The oldest ones. */
  listNotices(limit: number): Promise<StoredNotice[]>
  removeNotices(keys: readonly number[]): Promise<void>
}
