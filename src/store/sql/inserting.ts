import { AppError } from '../../domain/app-error.ts'
import type { Prefix } from '../../domain/ids.ts'
import { type Identity, identityTries } from '../../domain/ids.ts'
import type { Port, Transaction, Work } from './port.ts'
import type { Statement, Values } from './statement.ts'

/**
 * Inserts one row under a new identity and answers what the statement returns. The statement says
 * `on conflict (key) do nothing returning …`: no row means that the key is taken.
 */
export function* insertNew<Row>(
  sql: Transaction,
  prefix: Prefix,
  insert: Statement<Row>,
  valuesFor: (identity: Identity) => Values,
): Work<Row> {
  for (let tries = 0; tries < identityTries; tries++) {
    const identity = yield* sql.newIdentity(prefix)
    const row = yield* sql.first(insert, { ...valuesFor(identity), key: identity.key, id: identity.id })
    if (row !== undefined) return row
    sql.changeKeySeries()
  }
  throw new Error(`no free ${prefix} key found in ${identityTries} tries`)
}

/** Runs work that may store a uid; throws AppError `conflict` when the uid is taken. */
export function* conflictOnUid<T>(port: Port, uid: string | null, work: () => Work<T>): Work<T> {
  try {
    return yield* work()
  } catch (error) {
    if (uid === null || !port.isUidTaken(error)) throw error
    throw new AppError('conflict', `the uid ${JSON.stringify(uid)} is already in use`)
  }
}
