import {
  accessSync,
  type BigIntStats,
  chmodSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readdirSync,
  rmdirSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { StoreTrouble } from '../store.ts'
import { isNotADatabase, notADatabase, openingTrouble } from './trouble.ts'

/** The names of the database's file and of the files beside it. */
export function filesOf(path: string): string[] {
  return [path, `${path}-wal`, `${path}-shm`, `${path}-owner`]
}

/**
 * The file of an open database, and its log, known by device and inode. SQLite goes on writing to a file that was deleted
 * or replaced, and those writes would be lost.
 */
export class DatabaseFile {
  readonly #path: string
  readonly #log: ((sentence: string) => void) | undefined
  readonly #file: BigIntStats | undefined
  #wal: BigIntStats | undefined
  #isLost = false

  constructor(path: string, log: ((sentence: string) => void) | undefined) {
    this.#path = path
    this.#log = log
    this.#file = statOf(path)
    this.#wal = statOf(`${path}-wal`)
  }

  /** Throws `StoreTrouble` unless the file and its log are still where they were opened. Takes some 5 µs. */
  assertInPlace(): void {
    const wal = statOf(`${this.#path}-wal`)
    this.#wal ??= wal
    const lost =
      changeOf('database file', this.#file, statOf(this.#path)) ?? changeOf('write-ahead log', this.#wal, wal)
    if (lost === undefined) {
      if (this.#isLost) this.#log?.(`${this.#path} is back in its place; messages are accepted again`)
      this.#isLost = false
      return
    }
    const message = `${lost} while Sluice was running; nothing is accepted until it is put back, or Sluice is restarted`
    if (!this.#isLost) this.#log?.(`NOTHING IS ACCEPTED: ${this.#path}: ${message}`)
    this.#isLost = true
    throw new StoreTrouble(message, { detail: `T${message.slice(1)}.` })
  }

  /** Whether the file gets what is in the log when SQLite closes it: SQLite has the log open, also after it was deleted. */
  get isClosable(): boolean {
    const wal = statOf(`${this.#path}-wal`)
    const isLogReplaced = wal !== undefined && changeOf('write-ahead log', this.#wal, wal) !== undefined
    return !isLogReplaced && changeOf('database file', this.#file, statOf(this.#path)) === undefined
  }

  /** Throws `StoreTrouble` when the file is empty or does not begin as a database does. Takes some 50 µs. */
  assertReadable(): void {
    if (isDatabase(this.#path) && statOf(this.#path)?.size !== 0n) return
    throw new StoreTrouble('the database file is damaged', {
      detail: 'The database file is damaged: it does not begin as a SQLite database does. Restore it from a backup.',
    })
  }
}

/**
 * Whether the file is empty or begins as a database does. SQLite itself reads it, past the log: if this process opened and
 * closed the file, the kernel would drop all locks that the process has on it, those of SQLite's connections included.
 * Another process could then take itself for the only one that has the file open.
 */
function isDatabase(path: string): boolean {
  const url = pathToFileURL(path)
  url.searchParams.set('immutable', '1')
  let db: DatabaseSync | undefined
  try {
    db = new DatabaseSync(url, { readOnly: true })
    db.prepare('pragma schema_version').get()
    return true
  } catch (error) {
    // The database may grow at this moment, which looks like other damage.
    return !isNotADatabase(error)
  } finally {
    db?.close()
  }
}

function changeOf(what: string, before: BigIntStats | undefined, now: BigIntStats | undefined): string | undefined {
  if (before === undefined) return undefined
  if (now === undefined) return `the ${what} was deleted`
  return before.ino === now.ino && before.dev === now.dev ? undefined : `the ${what} was replaced`
}

function statOf(path: string): BigIntStats | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false })
}

/**
 * Makes the file and its directory if they are missing. The answer removes both again, as long as nothing was written
 * into them: for a start that fails.
 */
export function makeFile(path: string): () => void {
  if (path === ':memory:') return () => {}
  const isNew = statOf(path) === undefined
  const first = mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const removeDirectories = () => {
    if (first === undefined) return
    for (let directory = resolve(dirname(path)); ; directory = dirname(directory)) {
      if (readdirSync(directory).length > 0) return
      rmdirSync(directory)
      if (directory === resolve(first)) return
    }
  }
  try {
    makePrivate(path)
    if (!isDatabase(path)) throw notADatabase(path)
  } catch (error) {
    removeDirectories()
    throw openingTrouble(error, path)
  }
  return () => {
    if (!isNew) return
    // Another process may have begun to use the file meanwhile: then it has an owner, or content.
    if (statOf(path)?.size !== 0n || statOf(`${path}-owner`) !== undefined) return
    rmSync(path)
    removeDirectories()
  }
}

/**
 * Makes the file if it is missing, for its owner alone, whatever the umask is: SQLite gives its log the same mode. A file
 * that exists is not opened, for the reason at `isDatabase`.
 */
export function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, 'ax', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    const found = statOf(path)
    // A link to a file that is missing.
    if (found === undefined) return closeSync(openSync(path, 'a', 0o600))
    if (found.isDirectory()) throw Object.assign(new Error(`${path} is a directory`), { code: 'EISDIR' })
    accessSync(path, constants.R_OK | constants.W_OK)
  }
}

/**
 * Takes the access of others away from files that exist, with a line in the log. A group keeps its access in a directory
 * that it may write to: there, other users publish into the file.
 */
export function keepPrivate(
  paths: readonly string[],
  directory: string,
  log: ((sentence: string) => void) | undefined,
): void {
  const isShared = ((statSync(directory, { throwIfNoEntry: false })?.mode ?? 0) & 0o020) !== 0
  const tooWide = isShared ? 0o007 : 0o077
  for (const path of paths) {
    const stats = statSync(path, { throwIfNoEntry: false })
    if (stats === undefined || (stats.mode & tooWide) === 0) continue
    const [before, after] = [stats.mode & 0o777, stats.mode & 0o777 & ~tooWide]
    try {
      chmodSync(path, after)
      log?.(`${path} could be read by other users: its mode was ${before.toString(8)} and is ${after.toString(8)} now`)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error
      log?.(
        `${path} can be read by other users (mode ${before.toString(8)}), and belongs to another user: chmod it there`,
      )
    }
  }
}
