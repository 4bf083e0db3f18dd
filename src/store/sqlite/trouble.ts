import { StoreTrouble } from '../store.ts'

/** An error of node:sqlite: `errcode` is SQLite's extended result code. */
interface SqliteError extends Error {
  readonly errcode: number
}

// Primary result codes after which the same call may succeed later: the file is busy or locked, memory or the disk ran
// out, or the file is out of reach for now. Everything else (a constraint, a syntax error, a corrupt file) needs an operator.
const passing: ReadonlySet<number> = new Set([
  5, //  busy
  6, //  locked
  7, //  nomem
  8, //  readonly
  9, //  interrupt
  10, // ioerr
  13, // full
  14, // cantopen
  15, // protocol: locking went wrong under contention
])

const uniqueViolation = 2067
const ioError = 10

function isSqliteError(error: unknown): error is SqliteError {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
}

/** The error to reject with: `StoreTrouble` when the same call may succeed later, else the error itself. */
export function asTrouble(error: unknown): unknown {
  // The primary code is the low byte; the bytes above it tell apart, say, the kinds of I/O error.
  if (!isSqliteError(error) || !passing.has(error.errcode & 0xff)) return error
  return new StoreTrouble(error.message, { cause: error })
}

const notADatabaseCode = 26

/** The error for a file that is not a database. */
export function notADatabase(path: string, cause?: unknown): Error {
  return new Error(`${path} is not a SQLite database: move it away, or name another file`, { cause })
}

/** The error that says, in one sentence, why a file cannot be opened and what to do; else the error itself. */
export function openingTrouble(error: unknown, path: string): unknown {
  if (isNotADatabase(error)) return notADatabase(path, error)
  const reason = openingReasons[(error as NodeJS.ErrnoException).code ?? '']
  return reason === undefined ? error : new StoreTrouble(`${path} ${reason}`, { cause: error })
}

const openingReasons: Readonly<Record<string, string>> = {
  ENOENT: 'cannot be made: its directory does not exist',
  ENOTDIR: 'cannot be made: a part of its path is a file',
  EISDIR: 'is a directory: name a file, such as sluice.db in it',
  EACCES: 'cannot be written: give this user access to the file and its directory',
  EPERM: 'cannot be written: give this user access to the file and its directory',
  EROFS: 'cannot be written: its file system is mounted read-only',
}

/** Whether the file does not begin as a database does. */
export function isNotADatabase(error: unknown): boolean {
  return isSqliteError(error) && (error.errcode & 0xff) === notADatabaseCode
}

/** Whether the disk failed to take in a commit: the log (4), or its directory (5). */
export function isUnsynced(error: unknown): boolean {
  return isSqliteError(error) && (error.errcode === ioError + (4 << 8) || error.errcode === ioError + (5 << 8))
}

/** Whether the database was busy, the one trouble that waiting a moment is known to cure. */
export function isBusy(error: unknown): boolean {
  return isSqliteError(error) && (error.errcode & 0xff) === 5
}

/** Whether a unique index refused a row. */
export function isUniqueViolation(error: unknown): boolean {
  return isSqliteError(error) && error.errcode === uniqueViolation
}
