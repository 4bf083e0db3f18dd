import { hash } from 'node:crypto'
import type { AuditEntry, AuditRow, HashText } from '../domain/audit.ts'
import type { Page, PageRequest } from './store.ts'

/** Who changed what. Rows are appended, and never changed or removed. */
export interface Auditing {
  /** Appends a row behind the last one, durably. */
  appendAudit(entry: AuditEntry): Promise<AuditRow>
  /** Rows by number that meet every filter given. */
  listAudit(page: PageRequest, filter: AuditFilter): Promise<Page<AuditRow>>
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
