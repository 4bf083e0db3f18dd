import { statSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Identity } from '../../domain/ids.ts'
import { storeTraits } from '../../domain/store-traits.ts'
import { networkFileSystem, type StoreCondition } from '../../features/doctor/facts.ts'
import { type Administration, administration, type HandWritten } from '../../features/rows.ts'
import { releaseAllTasks } from '../../features/tasks/rows.ts'
import { atOnce, finishNow } from '../sql/port.ts'
import { areSealed, sealAll } from '../sql/sealing.ts'
import { endAllLeases, workers } from '../sql/workers.ts'
import type { Store, StoreContext } from '../store.ts'
import { callerTransaction } from './caller-transaction.ts'
import { Connection } from './connection.ts'
import { DatabaseFile, filesOf, keepPrivate, makePrivate } from './database-file.ts'
import { delivering } from './delivering.ts'
import { FileUse } from './file-use.ts'
import { idempotency } from './idempotency.ts'
import { intake, type Taking } from './intake.ts'
import { hasLostLog, keepMarked, MissingLogError, markClosed, markOpen } from './log-mark.ts'
import { migrate } from './migrate.ts'
import { MovedError, moveMarkOf } from './moved.ts'
import { followClock, ownership } from './ownership.ts'
import { onSqlite, promised, sqlitePort } from './port.ts'
import { historyRemover, upkeep } from './retention.ts'
import { StoreHashes } from './taken-hashes.ts'
import { asTrouble, isBusy, openingTrouble } from './trouble.ts'
import { checkpointApart, Disk } from './write-ahead-log.ts'

export interface SqliteOptions {
  /** The file, made when missing; ':memory:' for a database that ends with the store. */
  readonly path: string
  /** An owner may deliver from the file; a guest publishes into it and reads it while its owner runs. */
  readonly role: 'owner' | 'guest'
  /** False opens an owner that takes no lock, believes all workers in the file to be alive, and leaves clocks alone. */
  readonly exclusive?: boolean
  /** Opens a file whose log is missing, too, unless the file is damaged. */
  readonly acceptLoss?: boolean
  /** Opens a file whose rows were moved to another store, too. */
  readonly evenMoved?: boolean
}

/** How long to wait for other processes, both at each write and while the file is being made. */
const busyMs = 5000

/** Opens the file, makes sure that a commit survives power loss, and brings the tables up to date. */
export async function openSqliteStore(context: StoreContext, options: SqliteOptions): Promise<Store> {
  const inMemory = options.path === ':memory:'
  const alone = options.role === 'owner' && options.exclusive !== false
  // SQLite takes an empty path for a temporary file.
  const isFile = !inMemory && options.path !== ''
  let use: FileUse | undefined
  let db: DatabaseSync | undefined
  try {
    if (isFile) {
      keepPrivate(filesOf(options.path), dirname(options.path), context.log)
      makePrivate(options.path)
    }
    // Before the lock is taken: while this process has the lock, a store that closes would leave the mark to it.
    const isLogLost = isFile && (await hasLostLog(options.path, context.clock))
    if (isFile) use = new FileUse(options.path, alone)
    if (isLogLost && options.acceptLoss !== true) throw new MissingLogError(options.path)
    // No foreign keys: on the hot tables each would cost a probe per row.
    db = new DatabaseSync(options.path, { timeout: busyMs, enableForeignKeyConstraints: false })
    const connection = inMemory ? prepareInMemory(db, context) : await prepareFile(db, context)
    assertDurable(db, inMemory)
    const moved = moveMarkOf(db)
    if (moved !== undefined && options.evenMoved !== true) throw new MovedError(options.path, moved)
    if (isLogLost) goOnWithout(connection)
    // Where SQLite says it is: beside the file itself, when the path leads to a link.
    const location = db.location()
    if (location !== null) {
      connection.disk = new Disk(location)
      connection.file = new DatabaseFile(location, context.log)
    }
    sealRecords(connection)
    if (alone) {
      const port = sqlitePort(connection)
      finishNow(releaseAllTasks(port))
      finishNow(endAllLeases(port))
    }
    if (location !== null) markOpen(connection, location)
    return storeOver(connection, { alone, inMemory, use, path: options.path })
  } catch (error) {
    closeFile(db, use)
    throw asTrouble(openingTrouble(error, options.path))
  }
}

/** Goes on with a file whose log is missing. A copy of the log into the file may have been interrupted, too. */
function goOnWithout({ db, context }: Connection): void {
  const { quick_check: found } = db.prepare('pragma quick_check(1)').get() ?? {}
  if (found !== 'ok') {
    throw new Error(`the write-ahead log is missing, and the file is damaged without it: restore a backup. ${found}`)
  }
  context.log?.(
    'the write-ahead log was missing: messages that were accepted into it are lost, as --accept-loss permits',
  )
}

/** Closes the file. The last store that has it open marks it as closed, unless the file or its log was replaced. */
function closeFile(
  db: DatabaseSync | undefined,
  use: FileUse | undefined,
  file?: DatabaseFile,
  log?: StoreContext['log'],
) {
  const close = (isLast: boolean) => {
    try {
      if (isLast && file?.isClosable !== false && db !== undefined) markClosed(db)
    } catch (error) {
      log?.(`the file could not be marked as closed: ${(error as Error).message}`)
    }
    db?.close()
  }
  if (use === undefined) close(false)
  else use.end(close)
}

/** Seals every record under the vault's first key. Readable text is overwritten, not only let go. */
function sealRecords(connection: Connection): void {
  const port = sqlitePort(connection)
  if (finishNow(areSealed(port))) return
  connection.db.exec('pragma secure_delete = on')
  finishNow(sealAll(port))
  connection.db.exec('pragma secure_delete = fast')
  connection.db.exec('pragma wal_checkpoint(truncate)')
}

/** An empty database in memory with all tables. */
let emptyInMemory: Uint8Array | undefined

/** Programs that embed the library open a database in memory for each of their tests: only the first one is migrated. */
function prepareInMemory(db: DatabaseSync, context: StoreContext): Connection {
  // Node has this since 24.16.
  const canCopy = typeof db.deserialize === 'function'
  if (canCopy && emptyInMemory !== undefined) db.deserialize(emptyInMemory)
  const connection = setUp(db, context)
  if (canCopy) emptyInMemory ??= db.serialize()
  return connection
}

/** Two processes that make the same file get in each other's way for a moment; that passes. */
async function prepareFile(db: DatabaseSync, context: StoreContext): Promise<Connection> {
  const { clock } = context
  const giveUpAt = clock.steady() + busyMs
  for (;;) {
    try {
      return setUp(db, context)
    } catch (error) {
      // The switch to WAL does not wait for every lock it needs: with six openers of a new file, 4 of 360 got busy
      // at once.
      if (!isBusy(error) || clock.steady() >= giveUpAt) throw error
      await new Promise<void>((resolve) => clock.after(10, resolve))
    }
  }
}

function setUp(db: DatabaseSync, context: StoreContext): Connection {
  setPragmas(db)
  const connection = new Connection(db, context)
  const notice = migrate(connection)
  if (notice !== undefined) context.log?.(notice)
  return connection
}

function setPragmas(db: DatabaseSync): void {
  // Only before the first table does this one count, and switching to WAL already writes the first page.
  db.exec('pragma auto_vacuum = incremental')
  db.exec('pragma journal_mode = wal')
  db.exec('pragma synchronous = full')
  // Overwrites removed rows on pages that are written anyway. Otherwise a row that moved leaves its bytes behind, where
  // expunging the row does not reach them.
  db.exec('pragma secure_delete = fast')
  db.exec('pragma cache_size = -32768') // 32 MiB
  // A checkpoint runs inside some unlucky commit, unless most of it was done apart: rarer (every 16 MiB of log) means
  // cheaper in all, since a page that was written often meanwhile is copied once.
  db.exec('pragma wal_autocheckpoint = 4000')
  db.exec('pragma journal_size_limit = 67108864') // a log that a burst made larger is cut back to 64 MiB
}

/** Throws unless a commit survives power loss. A new file and a reopened one may have different defaults. */
export function assertDurable(db: DatabaseSync, inMemory: boolean): void {
  const journal = db.prepare('pragma journal_mode').get()?.journal_mode
  const synchronous = db.prepare('pragma synchronous').get()?.synchronous
  const wanted = inMemory ? 'memory' : 'wal'
  if (journal === wanted && synchronous === 2) return
  throw new Error(
    `the database is not durable: journal_mode is ${journal} and synchronous ${synchronous}, not ${wanted} and 2 (full)`,
  )
}

interface Opened {
  readonly alone: boolean
  readonly inMemory: boolean
  readonly path: string
  readonly use: FileUse | undefined
}

function storeOver(connection: Connection, { alone, inMemory, path, use }: Opened): Store {
  const beforeDeciding = alone ? followClock(connection) : () => {}
  const port = sqlitePort(connection)
  const hashes = new StoreHashes(connection)
  const { publishWithin: _publishWithin, publishAlong, ...taking } = intake(connection, hashes)
  const handWritten: HandWritten = {
    publishAlong: (publication, along) =>
      atOnce(() => publishAlong([publication], ([message]) => finishNow(along(port, (message as Identity).id)))),
    removeHistory: historyRemover(connection),
  }
  let unwatch: (() => void) | undefined
  let stopCheckpoints: (() => Promise<void>) | undefined
  let closed = false

  return {
    dialect: 'sqlite',
    traits: storeTraits.sqlite,
    ...onSqlite<Administration>(administration(port, handWritten), beforeDeciding),
    trailing: (trail, work) => connection.trails.run(trail, work),
    ...promised<Taking>(taking),
    ...onSqlite<Pick<Store, 'join' | 'renew' | 'startLeaving' | 'leave'>>(workers(port), beforeDeciding),
    ...promised(ownership(connection), beforeDeciding),
    ...promised(delivering(connection), beforeDeciding),
    ...promised(idempotency(connection, hashes)),
    ...callerTransaction(connection, path, hashes),
    ...promised<Pick<Store, 'ping' | 'upkeep' | 'scrubErased'>>({
      ping: () => connection.assertWritable(),
      upkeep: () => upkeep(connection),
      // Erased bytes were overwritten in the file, and the log was emptied.
      scrubErased: () => {},
    }),
    condition: () => condition(connection),
    async close() {
      if (closed) return
      closed = true
      unwatch?.()
      connection.watcher = undefined
      await stopCheckpoints?.()
      connection.stopSyncing()
      await connection.disk?.close()
      try {
        closeFile(connection.db, use, connection.file, connection.context.log)
      } catch (error) {
        throw asTrouble(error)
      }
    },
    watch(watcher) {
      connection.watcher = watcher
      // No other process can write to a database in memory.
      if (!inMemory) unwatch ??= watchForeignCommits(connection)
      if (!inMemory && alone) stopCheckpoints ??= checkpointApart(connection, path)
    },
  }
}

/** How often to look whether another process wrote to the file. One look costs about 2 µs. */
const pollMs = 20

/**
 * Signals the connection's watcher when another process has written to the file, until the answer is called. Which rows
 * it wrote is not known, so the signals name none.
 */
function watchForeignCommits(connection: Connection): () => void {
  const { clock, log } = connection.context
  // The number changes with every commit of another connection and never with one's own.
  const version = connection.prepare<{ data_version: number }>('pragma data_version')
  let seen = version.get()?.data_version
  let cancel = clock.after(pollMs, look)

  function look(): void {
    cancel = clock.after(pollMs, look)
    let found: number | undefined
    try {
      found = version.get()?.data_version
      if (found !== seen) keepMarked(connection)
    } catch (error) {
      log?.(`could not look for what other processes wrote: ${error instanceof Error ? error.message : error}`)
      return
    }
    if (found === seen) return
    seen = found
    connection.watcher?.expunged?.()
    connection.watcher?.rows()
    connection.watcher?.lanes()
    connection.watcher?.settings()
    connection.watcher?.inbox?.()
  }

  return () => cancel()
}

/** Makes one durable write that changes nothing, and looks at the file and its file system. */
async function condition(connection: Connection): Promise<StoreCondition> {
  const { clock } = connection.context
  const begunAt = clock.steady()
  try {
    connection.assertWritable()
    connection.relaxedTransaction(() => connection.writeNothing())
    await connection.onDisk()
  } catch (error) {
    throw asTrouble(error)
  }
  const commitMs = clock.steady() - begunAt
  const path = connection.db.location()
  const now = connection.now()
  if (path === null) return { now, commitMs, bytes: null, logBytes: null, disk: null, server: null }
  const { bsize, bavail, blocks, type } = await statfs(dirname(path))
  const disk = { path, freeBytes: bavail * bsize, totalBytes: blocks * bsize, network: networkFileSystem(type) }
  return { now, commitMs, bytes: sizeOf(path), logBytes: sizeOf(`${path}-wal`), disk, server: null }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}
