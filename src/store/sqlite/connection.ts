import { AsyncLocalStorage } from 'node:async_hooks'
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import type { EpochMs, SteadyMs } from '../../domain/clock.ts'
import { encodeId, type Identity, identityTries, KeyMaker, nodes, type Prefix } from '../../domain/ids.ts'
import type { AuditEntry } from '../../features/audit/rules.ts'
import type { Trail } from '../../features/audit/store.ts'
import { type StoreContext, StoreTrouble, type Watcher } from '../store.ts'
import type { DatabaseFile } from './database-file.ts'
import { isUnsynced } from './trouble.ts'
import type { Disk } from './write-ahead-log.ts'

/** A prepared statement whose rows are known to look like `Row`: the SQL beside it says so. */
export interface Query<Row> {
  get(...values: Values): Row | undefined
  all(...values: Values): Row[]
  run(...values: Values): { readonly changes: number }
}

/** Values for `?` in their order, or one record for `:name`. */
type Values = SQLInputValue[] | [Record<string, SQLInputValue>]

/** A log of this size means that a reader keeps it from being emptied: otherwise it begins from its start every 16 MiB. */
const longLogBytes = 128 * 1024 * 1024
/** How long a verdict on whether the database takes writes holds. */
const verdictMs = 1000
/** How long a relaxed commit may stay where a power cut undoes it. */
const unsyncedMs = 1000
/** How long a look at whether the files are in their places holds before a transaction. */
const lookMs = 10

/** One open database: its transactions, keys and log. All of it is synchronous. */
export class Connection {
  readonly db: DatabaseSync
  readonly context: StoreContext
  watcher: Watcher | undefined
  /** Waits for the disk apart. Without it, every commit waits by itself. */
  disk: Disk | undefined
  /** The file itself, unless the database is in memory. */
  file: DatabaseFile | undefined
  /** The request that a call serves; see `Trailing`. */
  readonly trails = new AsyncLocalStorage<Trail>()
  /** Called after each transaction that this connection commits. */
  onCommit: (() => void) | undefined
  /** Has the log emptied by the checkpointer's thread, while there is one. */
  wipeApart: (() => void) | undefined
  /** The length of the log when it was last looked at, and at which length the next line about it is logged. */
  logBytes = 0
  #logLineAt = longLogBytes
  /** Appends to the audit log within the transaction that is open. Set by the log. */
  appendAudit: ((entry: AuditEntry) => void) | undefined
  #keys: KeyMaker
  readonly #begin: Query<never>
  readonly #commit: Query<never>
  readonly #rollback: Query<never>
  readonly #changes: Query<{ count: number }>
  /** Commits before this instant are on the disk. The first commit also makes sure that its log is found there. */
  #syncedAt: SteadyMs = Number.NEGATIVE_INFINITY
  /** How many transactions were begun. */
  transactions = 0
  #isRelaxed = false
  /** When a relaxed commit was last made, and how its wait for the disk is called off. */
  #relaxedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #cancelSync: (() => void) | undefined
  #lookedAt: SteadyMs = Number.NEGATIVE_INFINITY
  /** When a commit last succeeded; cleared by a commit that fails. */
  #committedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #probe: { readonly at: SteadyMs; readonly error?: unknown } | undefined
  /** The wait of the publish that was committed last, while it goes on; those before it are safe no later. */
  publishing: Promise<void> | undefined

  constructor(db: DatabaseSync, context: StoreContext) {
    this.db = db
    this.context = context
    this.#keys = this.#newKeys()
    this.#begin = this.prepare('begin immediate')
    this.#commit = this.prepare('commit')
    this.#rollback = this.prepare('rollback')
    this.#changes = this.prepare('select total_changes() as count')
  }

  now(): EpochMs {
    return Math.floor(this.context.clock.now())
  }

  prepare<Row = never>(sql: string): Query<Row> {
    return this.statement(sql) as unknown as Query<Row>
  }

  /** A statement whose rows are objects until its caller says otherwise. */
  statement(sql: string): StatementSync {
    return this.db.prepare(sql)
  }

  /**
   * As `prepare`, for the reads of every delivery: a row is the list of its values. Node makes objects without a shape, in
   * more than twice the time: 1.8 µs instead of 0.7 µs for a row of `pending`, 5.8 µs instead of 2.2 µs for a message.
   */
  prepareLists<Row extends readonly unknown[]>(sql: string): Query<Row> {
    const statement = this.statement(sql)
    statement.setReturnArrays(true)
    return statement as unknown as Query<Row>
  }

  /**
   * As `prepare`, for wide rows that many callers read: each is a copy of one blank row, so that all have the same shape. The objects
   * that Node makes take three times the memory.
   */
  prepareAlike<Row>(sql: string): Query<Row> {
    const statement = this.statement(sql)
    const columns = statement.columns().map(({ name }) => name)
    statement.setReturnArrays(true)
    const blank = Object.fromEntries(columns.map((column) => [column, null])) as Record<string, unknown>
    const toRow = (values: readonly unknown[]): Row => {
      const row = { ...blank }
      for (let i = 0; i < columns.length; i++) row[columns[i] as string] = values[i]
      return row as Row
    }
    const query = statement as unknown as Query<readonly unknown[]>
    return {
      get(...values) {
        const found = query.get(...values)
        return found && toRow(found)
      },
      all: (...values) => query.all(...values).map(toRow),
      run: (...values) => query.run(...values),
    }
  }

  /**
   * Runs `work` in a transaction that holds the write lock from its start (a read lock that has to grow fails at once
   * instead of waiting) and undoes everything when `work` or the commit fails. Its changes for a request are
   * written to the audit log with it.
   */
  transaction<T>(work: () => T): T {
    const trail = this.trails.getStore()
    const trailing = trail !== undefined && !trail.written
    this.#assertInPlaceRecently()
    if (this.disk?.failed) this.#rewriteLog(this.disk)
    this.#begin.run()
    this.transactions++
    try {
      const counts = trailing || !this.#isRelaxed
      const before = counts ? this.#changes.get()?.count : undefined
      const result = work()
      const hasChanged = counts && this.#changes.get()?.count !== before
      if (trailing && hasChanged) this.appendAudit?.(trail.entry)
      this.#commit.run()
      if (trailing && hasChanged) trail.written = true
      // A transaction that changed nothing did not wait for the disk.
      if (!this.#isRelaxed && hasChanged) {
        this.#syncedAt = this.context.clock.steady()
        // Checked before the commit counts as safe: writes to a file that is gone are gone with it.
        this.file?.assertInPlace()
      }
      this.#committedAt = this.context.clock.steady()
      this.onCommit?.()
      return result
    } catch (error) {
      this.#committedAt = Number.NEGATIVE_INFINITY
      if (this.disk !== undefined && isUnsynced(error)) this.disk.failed = true
      // After some failures, such as a full disk, SQLite has already rolled back by itself.
      if (this.db.isTransaction) this.#rollback.run()
      throw error
    }
  }

  /**
   * As `transaction`, without waiting for the disk: a power cut may undo it, the death of the process does not. For work
   * that waits for the disk afterwards, and for work that is done once more when it is lost.
   */
  relaxedTransaction<T>(work: () => T): T {
    if (this.disk === undefined || this.#syncedAt === Number.NEGATIVE_INFINITY) return this.transaction(work)
    this.#isRelaxed = true
    this.db.exec('pragma synchronous = normal')
    try {
      return this.transaction(work)
    } finally {
      this.db.exec('pragma synchronous = full')
      this.#isRelaxed = false
      this.#soonOnDisk()
    }
  }

  /** Resolves when everything committed so far survives a power cut; meanwhile, others have their turn. */
  async onDisk(): Promise<void> {
    const at = this.context.clock.steady()
    await this.disk?.caughtUp()
    this.file?.assertInPlace()
    this.#syncedAt = Math.max(at, this.#syncedAt)
  }

  /**
   * A look of a moment ago is enough before a transaction: it counts as safe only after the look behind it, and a look at two
   * files costs as much as the smallest transaction.
   */
  #assertInPlaceRecently(): void {
    const now = this.context.clock.steady()
    if (now - this.#lookedAt < lookMs) return
    this.file?.assertInPlace()
    this.#lookedAt = now
  }

  /** As `onDisk`, for a publish: until then, readers of deliveries wait for it, too. */
  async publishedOnDisk(): Promise<void> {
    const wait = this.onDisk()
    this.publishing = wait
    try {
      await wait
    } finally {
      if (this.publishing === wait) this.publishing = undefined
    }
  }

  #soonOnDisk(): void {
    this.#relaxedAt = this.context.clock.steady()
    this.#syncWhenDue()
  }

  /** Waits once a second while there are relaxed commits, and once more when none follows. */
  #syncWhenDue(): void {
    const { clock, log } = this.context
    const leftMs = this.#syncedAt + unsyncedMs - clock.steady()
    if (leftMs <= 0) {
      this.onDisk().catch((error) => log?.(error.message))
      return
    }
    this.#cancelSync ??= clock.after(leftMs, () => {
      this.#cancelSync = undefined
      if (this.#relaxedAt >= this.#syncedAt) this.#syncWhenDue()
    })
  }

  /** Waits for the disk no more by itself: the file is about to be closed, which does it. */
  stopSyncing(): void {
    this.#cancelSync?.()
    this.#cancelSync = undefined
  }

  /**
   * Throws unless the database takes writes. A commit within the last second is proof enough; else one is made that changes
   * nothing, once a second at most. Answers a warning for operators, if there is one.
   */
  assertWritable(): string | undefined {
    const now = this.context.clock.steady()
    this.file?.assertInPlace()
    this.file?.assertReadable()
    if (now - this.#committedAt >= verdictMs && now - (this.#probe?.at ?? Number.NEGATIVE_INFINITY) >= verdictMs) {
      this.#probe = { at: now, ...this.#write() }
    }
    if (now - this.#committedAt >= verdictMs && this.#probe?.error !== undefined) throw this.#probe.error
    return this.logBytes < longLogBytes ? undefined : this.#longLog(this.logBytes)
  }

  /** Writes the first page as it is, within the caller's transaction. */
  writeNothing(): void {
    const { user_version: version } = this.prepare<{ user_version: number }>('pragma user_version').get() ?? {}
    this.db.exec(`pragma user_version = ${version ?? 0}`)
  }

  #write(): { readonly error?: unknown } {
    try {
      this.transaction(() => this.writeNothing())
      return {}
    } catch (error) {
      return { error }
    }
  }

  /** Has the log emptied, so that it keeps no expunged bytes. A log that is being read is emptied later. */
  wipeLog(): void {
    if (this.wipeApart !== undefined) this.wipeApart()
    else this.#emptyLog()
  }

  /** Logs a line when the log has become too long, and another one each time it has doubled. */
  noteLogLength(bytes: number): void {
    this.logBytes = bytes
    if (bytes < longLogBytes) this.#logLineAt = longLogBytes
    if (bytes < this.#logLineAt) return
    this.#logLineAt = bytes * 2
    this.context.log?.(this.#longLog(bytes))
  }

  #longLog(bytes: number): string {
    const mb = Math.round(bytes / 2 ** 20)
    return `the write-ahead log has grown to ${mb} MiB because another process keeps a read transaction open: end that process`
  }

  /** Copies the log into the database and begins it from its start. Answers whether it could. */
  #emptyLog(): boolean {
    const { timeout } = this.prepare<{ timeout: number }>('pragma busy_timeout').get() ?? { timeout: 0 }
    // A reader may take long, and everything here would wait.
    this.db.exec('pragma busy_timeout = 0')
    try {
      return this.prepare<{ busy: number }>('pragma wal_checkpoint(truncate)').get()?.busy === 0
    } finally {
      this.db.exec(`pragma busy_timeout = ${timeout}`)
    }
  }

  #rewriteLog(disk: Disk): void {
    if (!this.#emptyLog()) throw new StoreTrouble('the disk failed, and the log cannot be rewritten yet')
    disk.failed = false
  }

  /** Inserts one row under a new identity; `insert` answers how many rows it inserted, 0 when the key was taken. */
  insertNew(prefix: Prefix, now: EpochMs, insert: (identity: Identity) => number): Identity {
    for (let tries = 0; tries < identityTries; tries++) {
      const identity = this.newIdentity(prefix, now)
      if (insert(identity) > 0) return identity
      this.changeKeySeries()
    }
    throw new Error(`no free ${prefix} key found in ${identityTries} tries`)
  }

  /** A new key, which may be taken, and the id made from it. */
  newIdentity(prefix: Prefix, now: EpochMs): Identity {
    const key = this.#keys.next(now)
    return { key, id: encodeId(prefix, key, this.context.randomText) }
  }

  /** Makes the next keys with another node number, because a key was taken. */
  changeKeySeries(): void {
    this.#keys = this.#newKeys()
  }

  #newKeys(): KeyMaker {
    return new KeyMaker(Math.floor(this.context.random() * nodes))
  }
}

/** The methods of `T` before they are promised: the same arguments, the bare answer. */
export type Synchronous<T> = {
  [K in keyof T]: T[K] extends (...args: infer Args) => Promise<infer Result> ? (...args: Args) => Result : never
}

/** The methods of `T`, some of them before they are promised. */
export type MaybeSynchronous<T> = { [K in keyof T]: T[K] | Synchronous<T>[K] }
