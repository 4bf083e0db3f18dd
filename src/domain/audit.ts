import type { EpochMs } from './clock.ts'

/** One changing call. `before` is the changed object and `after` the request, as JSON without secrets. */
export interface AuditEntry {
  /** The id of the key or token, or `fixed` for the key from the settings. */
  readonly actor: string
  readonly ip: string
  /** Method and route, such as `PATCH /app/:app/endpoint/:endpoint`. */
  readonly action: string
  /** The id of the application; null when the call concerns none. */
  readonly app: string | null
  /** The path of the request. */
  readonly target: string
  readonly before: string | null
  readonly after: string | null
}

/** An entry in the log. */
export interface AuditRow extends AuditEntry {
  /** 1, 2, 3, … without a gap. */
  readonly n: number
  readonly id: string
  readonly at: EpochMs
  /** Over this row and the hash of the row before, in hex. */
  readonly hash: string
}

/** SHA-256 of a text, in hex. */
export type HashText = (text: string) => string

/** The previous hash of the first row. */
export const auditStart = '0'.repeat(64)

/** The hash of a row. Changing, removing or inserting a row changes every hash after it. */
export function auditHash(row: Omit<AuditRow, 'hash'>, previous: string, hashText: HashText): string {
  const { n, id, at, actor, ip, action, app, target, before, after } = row
  return hashText(JSON.stringify([previous, n, id, at, actor, ip, action, app, target, before, after]))
}

/** The last row that was verified; the next rows are checked against it. */
export interface AuditCheckpoint {
  readonly n: number
  readonly hash: string
}

/**
 * Checks the rows that follow a checkpoint. Answers the new checkpoint, or the number of the first row that was changed.
 * Rows that were cut off at the end are noticed only by comparing with a checkpoint kept elsewhere.
 */
export function verifyAudit(
  checkpoint: AuditCheckpoint,
  rows: readonly AuditRow[],
  hashText: HashText,
): AuditCheckpoint | number {
  let { n, hash } = checkpoint
  for (const row of rows) {
    if (row.n !== n + 1 || row.hash !== auditHash(row, hash, hashText)) return n + 1
    n = row.n
    hash = row.hash
  }
  return { n, hash }
}
