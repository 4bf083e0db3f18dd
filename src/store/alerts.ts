import type { AlertBook, AlertChange, Silence } from '../domain/alert.ts'
import type { EpochMs } from '../domain/clock.ts'

/** Alerts, and silences in which they are not announced. The leader alone steps alerts. */
export interface Alerts {
  /** All alerts, silences that are not over, and the store's clock. */
  readAlerts(): Promise<AlertBook & { readonly silences: readonly StoredSilence[] }>
  /**
   * Stores changes of alerts, each with the notice of its announcement: both or neither. Leaves out changes of alerts that
   * another process changed since they were read. Answers the changes that were stored.
   */
  changeAlerts(changes: readonly AlertChange[]): Promise<AlertChange[]>
  addSilence(silence: NewSilence): Promise<StoredSilence>
  /** Ends a silence now; answers whether it was there and not over. */
  endSilence(id: string): Promise<boolean>
}

export interface NewSilence extends Pick<Silence, 'rule' | 'subject'> {
  /** The time from now until it begins. */
  readonly startsInMs: number
  readonly lengthMs: number
  readonly reason: string
  /** The caller, as in the audit log. */
  readonly createdBy: string
}

export interface StoredSilence extends Silence {
  readonly reason: string
  readonly createdBy: string
  readonly createdAt: EpochMs
}

/** Silences that are not over, at most. */
export const silencesLimit = 1000
