import type { EpochMs } from '../../domain/clock.ts'

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

/** Rows that were trimmed off the beginning of the log. The hashes of the chain prove their number and their contents. */
export interface TrimmedRows {
  /** The first and the last row. */
  readonly fromN: number
  readonly toN: number
  /** The hash before the first row, and that of the last. */
  readonly previous: string
  readonly hash: string
  /** The instants of the first and the last row. */
  readonly firstAt: EpochMs
  readonly lastAt: EpochMs
  /** When they were trimmed. */
  readonly at: EpochMs
}

/** The purpose that checkpoints are signed for. */
export const trimPurpose = 'audit checkpoint'

/** The text that the server signs. */
export function trimText({ fromN, toN, previous, hash, firstAt, lastAt, at }: TrimmedRows): string {
  return JSON.stringify([fromN, toN, previous, hash, firstAt, lastAt, at])
}

/**
 * Checks trimmed rows, the oldest first, each behind the one before. Answers where the rest of the log begins, or the number
 * of the first row whose checkpoint is missing, changed or not signed by this server.
 */
export function verifyTrimmed<Trimmed extends TrimmedRows>(
  checkpoints: readonly Trimmed[],
  isSigned: (trimmed: Trimmed) => boolean,
): AuditCheckpoint | number {
  let head: AuditCheckpoint = { n: 0, hash: auditStart }
  for (const each of checkpoints) {
    const follows = each.fromN === head.n + 1 && each.toN >= each.fromN && each.previous === head.hash
    if (!follows || !isSigned(each)) return head.n + 1
    head = { n: each.toN, hash: each.hash }
  }
  return head
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
