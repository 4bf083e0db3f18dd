import { type AppError, noSuch, quotaExceeded } from '../../domain/app-error.ts'
import { forUpdate } from './dialect.ts'
import type { Sql, Work } from './port.ts'
import { type Statement, statement } from './statement.ts'

// The applications that own rows of other tables.

// Also the name of a deleted application, until the sweep takes its row.
const selectName = statement<{ name: string }>('application-name')`
  select coalesce(uid, id) as name from application where key = :app`
const selectLocked = statement('lock-application')`
  select key from application where key = :app and deleted_at is null ${forUpdate}`

/** The refusal for an application that was deleted after the caller looked it up; it repeats the name. */
export function* noApplication(sql: Sql, app: number): Work<AppError> {
  return noSuch('application', (yield* sql.first(selectName, { app }))?.name ?? String(app))
}

/** How many things of a kind an owner may have. */
export interface Limit {
  readonly most: number
  /** The plural of the kind. */
  readonly things: string
  /** The setting that changes the number. */
  readonly setting?: string
}

/** The row that things of the server are counted behind: the application of operational webhooks, which is never deleted. */
const serverKey = 0

/**
 * Locks an application, or for null the server, and then counts its things of a kind: counted in one statement with the lock,
 * those that another transaction adds while this one waits would be missed. Throws AppError `not_found` when the application is
 * deleted, and `quota_exceeded` when it has as many already.
 */
export function* lockForOneMore(
  sql: Sql,
  app: number | null,
  count: Statement<{ count: number }>,
  { most, things, setting }: Limit,
): Work<void> {
  if (!(yield* sql.any(selectLocked, { app: app ?? serverKey }))) throw yield* noApplication(sql, app ?? serverKey)
  const counted = yield* sql.first(count, app === null ? {} : { app })
  if ((counted?.count ?? 0) < most) return
  throw quotaExceeded(app === null ? 'The server' : 'An application', most, things, setting)
}
