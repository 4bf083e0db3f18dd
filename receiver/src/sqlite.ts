import { defaultKeepSeconds, isPromise, type OnceStore, shortWaitMs, type Transaction } from './once.ts'
import { notFirst, pruneEvery, pruneRows, type Remembered, tableName } from './table.ts'

/** The part of a database that is used: `DatabaseSync` of node:sqlite has it, and so have better-sqlite3 and bun:sqlite. */
export interface SqliteDatabase {
  exec(sql: string): unknown
  prepare(sql: string): {
    run(...values: (string | number | null)[]): unknown
    get(...values: (string | number | null)[]): unknown
  }
}

export interface SqliteOptions {
  /** The name of the table, which is created if it does not exist; `sluice_handled` by default. */
  readonly table?: string | undefined
  /** The current time in milliseconds; `Date.now` by default. */
  readonly now?: (() => number) | undefined
}

export interface SqliteStore extends OnceStore {
  /**
   * Remembers the message as handled within the transaction that is open on the database, unless it was handled before
   * (`duplicate`) or another process works on it (`busy`). The work belongs into the same transaction.
   */
  remember(id: string, keepMs?: number): Remembered
}

/** A store in a SQLite database, for all processes that open the file. */
export function sqliteStore(database: SqliteDatabase, { table, now = Date.now }: SqliteOptions = {}): SqliteStore {
  const name = tableName(table)
  database.exec(
    `create table if not exists ${name} (id text primary key, token text, until integer not null) without rowid;
     create index if not exists ${name}_until on ${name} (until)`,
  )
  // An entry without a token is a handled message.
  const put = database.prepare(
    `insert into ${name} (id, token, until) values (?, ?, ?)
     on conflict (id) do update set token = excluded.token, until = excluded.until where until <= ? returning id`,
  )
  const look = database.prepare(`select token, until from ${name} where id = ?`)
  const complete = database.prepare(
    `insert into ${name} (id, token, until) values (?, null, ?)
     on conflict (id) do update set token = null, until = excluded.until`,
  )
  const release = database.prepare(`delete from ${name} where id = ? and token = ?`)
  const prune = database.prepare(
    `delete from ${name} where id in (select id from ${name} where until <= ? order by until limit ${pruneRows})`,
  )
  const isDue = pruneEvery()

  /** Puts an entry in place of none or an expired one. The answer is that of a claim. */
  const claimed = (id: string, token: string | null, forMs: number) => {
    const at = now()
    if (put.get(id, token, at + forMs, at) != null) return 'claimed'
    const other = look.get(id) as { token: string | null; until: number } | null | undefined
    // Another process may have released the entry in between: the next attempt finds it free.
    if (other == null) return { busyMs: shortWaitMs }
    return other.token === null ? 'handled' : { busyMs: Math.max(other.until - at, 1) }
  }
  return {
    async claim(id, token, leaseMs) {
      return claimed(id, token, leaseMs)
    },
    async complete(id, keepMs) {
      complete.run(id, now() + keepMs)
      if (isDue()) prune.run(now())
    },
    async release(id, token) {
      release.run(id, token)
    },
    remember(id, keepMs = defaultKeepSeconds * 1000) {
      const claim = claimed(id, null, keepMs)
      if (claim !== 'claimed') return claim === 'handled' ? 'duplicate' : 'busy'
      if (isDue()) prune.run(now())
      return 'first'
    },
  }
}

/**
 * Does the work of a message and remembers it in one transaction of the database: both happen or neither. The work must not
 * wait for a promise, because other statements of the program would run in its transaction meanwhile.
 */
export function sqliteTransaction<Database extends SqliteDatabase>(
  database: Database,
  { keepSeconds = defaultKeepSeconds, ...options }: SqliteOptions & { readonly keepSeconds?: number } = {},
): Transaction<Database> {
  const store = sqliteStore(database, options)
  return {
    async run(id, work) {
      try {
        database.exec('begin immediate')
      } catch (error) {
        // Another process writes.
        if (isLocked(error)) return { outcome: 'busy', retryAfterMs: shortWaitMs }
        throw error
      }
      try {
        const remembered = store.remember(id, keepSeconds * 1000)
        if (remembered !== 'first') {
          database.exec('rollback')
          return notFirst(remembered)
        }
        const value = work(database)
        if (isPromise(value)) {
          value.catch(() => {})
          throw new TypeError('The work in a SQLite transaction must not be asynchronous.')
        }
        database.exec('commit')
        return { outcome: 'handled', value }
      } catch (error) {
        rollBack(database)
        throw error
      }
    },
  }
}

/** Ends the transaction, unless SQLite did so itself because of the error. */
function rollBack(database: SqliteDatabase): void {
  try {
    database.exec('rollback')
  } catch {
    // No transaction is open, and the error that ended it is the one to report.
  }
}

/** Whether the error is SQLITE_BUSY, as node:sqlite and as other libraries name it. */
function isLocked(error: unknown): boolean {
  const { errcode, code } = error as { errcode?: unknown; code?: unknown }
  return errcode === 5 || code === 'SQLITE_BUSY'
}
