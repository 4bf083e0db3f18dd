import type { EpochMs } from './clock.ts'

/**
 * What one changing call did: what stood there before it, and what it asked for. Both are JSON with everything secret
 * left out, and null where there is none.
 */
export interface AuditEntry {
  /** The id of the key or token, or `fixed` for the key from the settings. */
  readonly actor: string
  readonly ip: string
  /** Method and route, such as `PATCH /app/:app/endpoint/:endpoint`. */
  readonly action: string
  /** The application concerned, by id; null when it is none. */
  readonly app: string | null
  /** What was asked for: the path. */
  readonly target: string
  readonly before: string | null
  readonly after: string | null
}

/** An entry in its place in the log. */
export interface AuditRow extends AuditEntry {
  /** 1, 2, 3, … without a gap. */
  readonly n: number
  readonly id: string
  readonly at: EpochMs
  /** Over this row and the hash of the one before it, in hex. */
  readonly hash: string
}

/** SHA-256 of a text, in hex. */
export type HashText = (text: string) => string

/** What the first row follows. */
export const auditStart = '0'.repeat(64)

/** The hash of a row: whoever changes, removes or inserts one changes every hash after it. */
export function auditHash(row: Omit<AuditRow, 'hash'>, previous: string, hashText: HashText): string {
  const { n, id, at, actor, ip, action, app, target, before, after } = row
  return hashText(JSON.stringify([previous, n, id, at, actor, ip, action, app, target, before, after]))
}

/** How far a log was read and found whole; the next rows are checked against it. */
export interface AuditCheckpoint {
  readonly n: number
  readonly hash: string
}

/**
 * Checks rows that follow `head`. The answer is the new head, or the number of the first row that is not what was
 * written there. What was cut off at the end shows only against a head that somebody kept.
 */
export function verifyAudit(
  head: AuditCheckpoint,
  rows: readonly AuditRow[],
  hashText: HashText,
): AuditCheckpoint | number {
  let { n, hash } = head
  for (const row of rows) {
    if (row.n !== n + 1 || row.hash !== auditHash(row, hash, hashText)) return n + 1
    n = row.n
    hash = row.hash
  }
  return { n, hash }
}
