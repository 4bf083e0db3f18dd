import { realpathSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import type { Clock } from '../../domain/clock.ts'
import type { Connection } from './connection.ts'

/**
 * SQLite keeps what it commits in a log beside the file until it copies the log into the file, and removes the log when the
 * last connection closes. A file whose log is missing opens like any other file: everything that was only in the log is gone,
 * and SQLite cannot know. So the file itself has a mark while stores have it open: the row of `unclosed`. It is in the file,
 * not only in its log, before anything is accepted, and the last store that closes the file takes it away. A file that has
 * the mark and no log has lost its log.
 *
 * The mark costs a commit and a copy of the log at the start and at the end, and no write in between. That is why it cannot
 * tell whether a log that is missing held anything: that would take a write to the file after each copy of the log, and a
 * running server always has a heartbeat in its log that is not copied yet. For the same reason a file is refused that another
 * program, such as the shell of SQLite, opened and closed after a kill, although SQLite copied the log then.
 *
 * A backup that SQLite made of an open file has the mark and needs no log. SQLite counts changes of the schema in the file,
 * and its backups have another count (`.backup` and the backup of node:sqlite) or one more (`vacuum into`). So the mark is the
 * count at which it was made. Tools that copy pages instead (`cp`, sqlite3_rsync, Litestream) keep the count: their copies of
 * an open file are refused, because nothing in them shows whether they are whole.
 */
const createTable = 'create table if not exists unclosed (schema_count integer not null) strict'
const selectTable = `select 1 from sqlite_schema where type = 'table' and name = 'unclosed'`
const selectMark = 'select schema_count from unclosed'

/** The log of a file is missing, and with it accepted messages. */
export class MissingLogError extends Error {
  override readonly name = 'MissingLogError'

  constructor(path: string) {
    super(
      `${path}-wal, the write-ahead log of ${path}, is missing although the last process did not close the file: ` +
        'what was accepted into that log is lost. Put the log back beside the file, or restore a backup (docs/backup.md). ' +
        'If another SQLite program has opened and closed the file since, or to go on without what was lost, run once: ' +
        `sluice migrate --store sqlite:${path} --accept-loss`,
    )
  }
}

/** A process that closes or opens the file takes its mark and its log away, or makes them, within this time. */
const settledMs = 1000
const lookAgainMs = 20

/** Whether the file was not closed and has no log. Looked at before this process opens the file, which makes a new log. */
export async function hasLostLog(path: string, clock: Clock): Promise<boolean> {
  const settledAt = clock.steady() + settledMs
  while (looksLost(path)) {
    if (clock.steady() >= settledAt) return true
    await new Promise<void>((resolve) => clock.after(lookAgainMs, resolve))
  }
  return false
}

function looksLost(path: string): boolean {
  // The log is beside the file itself, when the path leads to a link.
  const file = realpathSync(path)
  const log = `${file}-wal`
  return !exists(log) && isMarked(file) && !exists(log)
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined
}

/** Whether the file has the mark, whatever its log says. */
function isMarked(file: string): boolean {
  const url = pathToFileURL(file)
  // SQLite then reads the file alone, and takes no lock on it.
  url.searchParams.set('immutable', '1')
  const db = new DatabaseSync(url, { readOnly: true })
  try {
    return markIn(db) === schemaCount(db)
  } finally {
    db.close()
  }
}

function markIn(db: DatabaseSync): number | undefined {
  if (db.prepare(selectTable).get() === undefined) return undefined
  return db.prepare(selectMark).get()?.schema_count as number | undefined
}

function schemaCount(db: DatabaseSync): number {
  return Number(db.prepare('pragma schema_version').get()?.schema_version)
}

/**
 * Marks the file as open. While another process reads the file in a transaction of before, the mark gets from the log into
 * the file only when the log is next copied after that.
 */
export function markOpen(connection: Connection, file: string): void {
  keepMarked(connection)
  if (!isMarked(file)) connection.db.exec('pragma wal_checkpoint(passive)')
}

/** Marks the file again when another program has changed its schema since. The mark is in the file with the next copy of the log. */
export function keepMarked(connection: Connection): void {
  const { db } = connection
  if (markIn(db) === schemaCount(db)) return
  connection.transaction(() => {
    db.exec(createTable)
    db.exec('delete from unclosed')
    db.prepare('insert into unclosed (schema_count) values (?)').run(schemaCount(db))
  })
}

/**
 * Takes the mark away as the last change before the last store closes the file. The log is copied first, so that the copy
 * of this change, which SQLite makes when it closes the file, is of one page.
 */
export function markClosed(db: DatabaseSync): void {
  if (markIn(db) === undefined) return
  db.exec('pragma wal_checkpoint(passive)')
  db.exec('delete from unclosed')
}
