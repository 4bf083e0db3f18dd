import { realpathSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import {
  type CallerTransaction,
  type Enlisted,
  type Match,
  NotEnlistableError,
  type Publication,
} from '../publishing.ts'
import { publishEnlisted } from '../sql/intake.ts'
import { atOnce, finishNow, type Port } from '../sql/port.ts'
import { Connection } from './connection.ts'
import { intake, type SqliteIntake } from './intake.ts'
import { sqlitePort } from './port.ts'
import { GuestHashes, type StoreHashes } from './taken-hashes.ts'
import { asTrouble } from './trouble.ts'

const selectVersion = 'select max(version) as version from migration'

/** Takes part in a transaction that is open already. Its own changes are undone without ending that transaction. */
class EnlistedConnection extends Connection {
  override statement(sql: string): StatementSync {
    return prepareAsOurs(this.db, sql)
  }

  override transaction<T>(work: () => T): T {
    this.db.exec('savepoint sluice')
    this.transactions++
    try {
      const result = work()
      this.db.exec('release sluice')
      return result
    } catch (error) {
      // After some failures, such as a full disk, SQLite has already rolled back the whole transaction by itself.
      if (this.db.isTransaction) this.db.exec('rollback to sluice; release sluice')
      throw error
    }
  }
}

/** Prepares a statement that answers as on a connection of the store, however the caller opened theirs. */
function prepareAsOurs(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql)
  statement.setReadBigInts(false)
  statement.setReturnArrays(false)
  statement.setAllowBareNamedParameters(true)
  return statement
}

interface Guest {
  readonly port: Port
  readonly intake: Pick<SqliteIntake, 'publishWithin'>
}

/** Publishes within callers' transactions on the same file. */
export function callerTransaction(connection: Connection, path: string, taken: StoreHashes): CallerTransaction {
  const guests = new WeakMap<DatabaseSync, Guest>()

  function guestOf(db: DatabaseSync): Guest {
    const known = guests.get(db)
    if (known) return known
    assertSameFile(connection, db, path)
    const enlisted = new EnlistedConnection(db, connection.context)
    const guest = { port: sqlitePort(enlisted), intake: intake(enlisted, new GuestHashes(enlisted, taken)) }
    guests.set(db, guest)
    return guest
  }

  function publish({ port, intake }: Guest, ref: string, match: Match): Enlisted | undefined {
    const publishOne = (publication: Publication) => atOnce(() => intake.publishWithin(publication))
    const stored = finishNow(publishEnlisted(port, publishOne, ref, match))
    if (stored === undefined) return undefined
    return {
      published: stored.published,
      committed() {
        if (stored.published.state !== 'accepted') return
        connection.watcher?.rows(stored.publication.endpoints)
        connection.watcher?.lanes()
        connection.watcher?.fanOuts?.()
      },
    }
  }

  return {
    publishWithin(db, ref, match) {
      if (!(db instanceof DatabaseSync)) {
        throw new NotEnlistableError('The store is a SQLite file: publish with a DatabaseSync of node:sqlite.')
      }
      if (!db.isOpen || !db.isTransaction) {
        throw new NotEnlistableError('The connection has no transaction open: run `begin immediate` on it first.')
      }
      try {
        const guest = guestOf(db)
        assertSafe(db)
        return publish(guest, ref, match)
      } catch (error) {
        throw asTrouble(error)
      }
    },
  }
}

function assertSameFile(connection: Connection, db: DatabaseSync, path: string): void {
  const location = db.location()
  if (path === ':memory:' || location === null || realpathSync(location) !== realpathSync(path)) {
    throw new NotEnlistableError(
      `The connection is on ${location ?? 'a database in memory'}, but the store is ${path}.`,
    )
  }
  const ours = connection.prepare<{ version: number }>(selectVersion).get()?.version
  const theirs = prepareAsOurs(db, selectVersion).get()?.version
  if (ours !== theirs) {
    throw new NotEnlistableError(`The connection sees schema version ${theirs}, but the store has ${ours}.`)
  }
}

/** Throws unless the commit will survive power loss. The setting cannot be changed while a transaction is open. */
function assertSafe(db: DatabaseSync): void {
  const synchronous = Number(prepareAsOurs(db, 'pragma synchronous').get()?.synchronous)
  if (synchronous < 2) {
    throw new NotEnlistableError(
      'What the connection commits may be lost in a power cut: run `pragma synchronous = full` on it when it is opened.',
    )
  }
}
