import { AppError } from '../../domain/app-error.ts'
import { StoreTrouble } from '../store.ts'

/** A setting that no server has: reading it undoes the transaction. */
export const durabilityProof = 'sluice.durable_commit'

// Classes of SQLSTATE, and single states, that say nothing about the statement itself: the same one may succeed later.
const troubleClasses = new Set([
  '08', // connection exception
  '28', // the password is being changed
  '53', // disk full, out of memory, too many connections
  '57', // shut down, starting up, cancelled, timed out
  '58', // the server's own disk
])
const troubleStates = new Set([
  '3D000', // the database is not there (yet)
  '25006', // read only: a standby that has not been promoted
  '25P03', // idle in transaction for too long
  '25P04', // the transaction took too long
  '26000', // a pooler forgot a prepared statement
  '42P05', // or mixed up those of its clients
  '40001', // serialization failure
  '40P01', // deadlock
  '55P03', // a lock could not be had in time
])

// The driver's own failures carry no code.
const driverTrouble =
  /^(connection terminated|timeout expired|timeout exceeded|query read timeout|client (has|was) |cannot use a pool)/i

/** A server on which Sluice does not run. A store that is open meets one when the address leads elsewhere: that may pass. */
export class UnfitServerError extends StoreTrouble {}

/** The primary, which takes writes, is elsewhere. */
export class ElsewhereError extends UnfitServerError {}

/** A server that follows another one takes no writes. */
export class StandbyError extends ElsewhereError {
  override readonly name = 'StandbyError'

  constructor() {
    super(
      'The Postgres server is a standby, which takes no writes: name the primary, or all of them as ' +
        'postgres://HOST1,HOST2/DATABASE?target_session_attrs=read-write, and Sluice finds the one that is the primary',
    )
  }
}

/** A server that was the primary before the one that this process has used since. */
export class FormerPrimaryError extends ElsewhereError {
  override readonly name = 'FormerPrimaryError'

  constructor() {
    super(
      'The Postgres server is a former primary: another one was promoted in its place, and what is written here would be lost. ' +
        'Make it a standby of its successor, or start Sluice again if this server is to be used on purpose',
    )
  }
}

/** None of several servers takes writes. */
export class NoPrimaryError extends ElsewhereError {
  override readonly name = 'NoPrimaryError'

  constructor(servers: string) {
    super(`None of the Postgres servers takes writes: ${servers}`)
  }
}

/** Each commit waits for a standby, and none follows the server. */
export class NoStandbyError extends StoreTrouble {
  constructor(awaited: string) {
    const names = `synchronous_standby_names = '${awaited}'`
    super(`postgres: no standby confirms commits (${names})`, {
      detail: `Each commit waits until a standby of the Postgres server has it (${names}), and no such standby follows the server.`,
    })
  }
}

/** The place of the password cannot be read now. */
export class PasswordError extends StoreTrouble {
  override readonly name = 'PasswordError'

  constructor(cause: unknown) {
    super(`postgres: the password cannot be read: ${(cause as Error).message}`, { cause })
  }
}

/** A pooler in front of the server has no transactions of several statements. */
export class PoolerError extends UnfitServerError {
  override readonly name = 'PoolerError'

  constructor() {
    super(
      'The connection pooler in front of Postgres pools statements, which leaves no transactions. ' +
        'Set its pool_mode to transaction, or name the server itself',
    )
  }
}

/** The connection that listens leads to a pooler, or to another database. */
export class OtherServerError extends UnfitServerError {
  override readonly name = 'OtherServerError'

  constructor() {
    super(
      'The connection that listens does not lead to the server of the store: SLUICE_STORE_DIRECT must name that server itself',
    )
  }
}

/** Behind a pooler, a transaction has the isolation that is the default of the server. */
export class IsolationError extends UnfitServerError {
  override readonly name = 'IsolationError'

  constructor(found: string) {
    super(
      `Behind a connection pooler, transactions would be ${found}: run \`alter role … set default_transaction_isolation = ` +
        "'read committed'` for the user of Sluice, or name the server itself",
    )
  }
}

/** The server is set up so that a committed transaction may be lost: Sluice does not run on it. */
export class NotDurableError extends UnfitServerError {
  override readonly name = 'NotDurableError'
}

/** The SQLSTATE of an error the server reported, else undefined. */
export function stateOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !isSystemError(error) ? code : undefined
}

/** Whether the connection can be used for something else after this error. */
export function spoilsConnection(error: unknown): boolean {
  const state = stateOf(error)
  return isNotDurable(error) || state === undefined || /^(08|57P0|25P03|26000|42P05)/.test(state)
}

/** Whether a transaction was undone because its commit would not have waited for the disk (`provesDurable`). */
function isNotDurable(error: unknown): boolean {
  return stateOf(error) === '42704' && (error as Error).message.includes(durabilityProof)
}

/** The error that a caller sees for an error of the driver: trouble, a caller's mistake, or the error itself: a bug. */
export function explain(error: unknown): unknown {
  if (error instanceof UnfitServerError) return new StoreTrouble(`postgres: ${error.message}`, { cause: error })
  if (error instanceof StoreTrouble || error instanceof AppError) return error
  const state = stateOf(error)
  if (state === '22021' || state === '22P05') {
    return new AppError('validation', 'Text must not contain the character U+0000.')
  }
  if (isNotDurable(error)) {
    return new StoreTrouble('postgres: a transaction would not have been durable, and was undone', {
      cause: error,
    })
  }
  const isTrouble =
    state !== undefined
      ? troubleClasses.has(state.slice(0, 2)) || troubleStates.has(state)
      : isSystemError(error) || (error instanceof Error && driverTrouble.test(error.message))
  return isTrouble ? new StoreTrouble(`postgres: ${messageOf(error)}`, { cause: error }) : error
}

/** The name of the constraint a unique violation met, else undefined. */
export function violatedKey(error: unknown): string | undefined {
  if (stateOf(error) !== '23505') return undefined
  return (error as { constraint?: string }).constraint ?? ''
}

/** Whether an error says that a uid is taken. */
export function isUidTaken(error: unknown): boolean {
  return violatedKey(error)?.endsWith('_uid') ?? false
}

/** Refused, reset, unreachable, not found: whatever the operating system says about a socket. */
function isSystemError(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.every(isSystemError)
  return typeof (error as { syscall?: unknown } | null)?.syscall === 'string'
}

function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}
