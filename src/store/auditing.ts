import { hash } from 'node:crypto'
import type { AuditEntry, AuditRow, HashText } from '../domain/audit.ts'
import type { Page, PageRequest } from './page.ts'

/** Who changed what. Rows are appended, and never changed or removed. */
export interface Auditing {
  /** Appends a row behind the last one, durably. */
  appendAudit(entry: AuditEntry): Promise<AuditRow>
  /** Rows by number that meet every filter given. */
  listAudit(page: PageRequest, filter: AuditFilter): Promise<Page<AuditRow>>
}

/** Lets what a request changes and the row that says so be one transaction. */
export interface Trailing {
  /**
   * Runs `work`; the first transaction that changes anything on its behalf, however long after, takes the entry along.
   * When the work is done and no transaction took it, `written` is still false, and the caller appends the entry itself.
   * Set to true, it keeps what the work has left running from taking it later.
   */
  trailing<T>(trail: Trail, work: () => T): T
}

export interface Trail {
  readonly entry: AuditEntry
  written: boolean
}

export interface AuditFilter {
  readonly actor: string | null
  readonly action: string | null
  /** The application's id. */
  readonly app: string | null
  readonly since: number | null
  readonly until: number | null
}

/** What rows are chained with. */
export const hashText: HashText = (text) => hash('sha256', text, 'hex')
