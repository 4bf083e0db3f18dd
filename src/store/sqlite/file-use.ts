import { DatabaseSync } from 'node:sqlite'
import { makePrivate } from './database-file.ts'
import { isBusy } from './trouble.ts'

/** Another process owns the file. `owner` describes it, as far as it has said. */
export class FileOwnedError extends Error {
  override readonly name = 'FileOwnedError'
  readonly path: string
  readonly owner: string

  constructor(path: string, owner: string) {
    super(`${path} is owned by ${owner}; only one process may deliver from a SQLite file at a time`)
    this.path = path
    this.owner = owner
  }
}

/** How long an owner waits for a process that closes the file, which holds the lock alone for some milliseconds. */
const closingMs = 250
/** How long a guest waits for it. */
const guestMs = 5000

/**
 * The locks of the stores that have a file open. They sit on an empty database beside the file, because on the file itself
 * they would shut out programs that publish in their own transactions: each store reads that database, its owner is about to
 * write to it, and the last one that closes takes it alone. They are locks of the kernel, which end with their process
 * however it ends, so that there is nothing stale to clean up.
 */
export class FileUse {
  readonly #lock: DatabaseSync

  /** Throws `FileOwnedError` when an owner is wanted and there is one. */
  constructor(path: string, isOwner: boolean) {
    const name = `${path}-owner`
    makePrivate(name)
    this.#lock = new DatabaseSync(name, { timeout: isOwner ? closingMs : guestMs })
    try {
      // With a rollback journal these are locks on the file, and the journal stays empty, since nothing is written.
      this.#lock.exec('pragma journal_mode = delete')
      this.#lock.exec(isOwner ? 'begin immediate' : 'begin; select 1 from sqlite_schema')
    } catch (error) {
      this.#lock.close()
      if (!isBusy(error)) throw error
      throw new FileOwnedError(path, describeOwner(path))
    }
  }

  /** Runs `close`, which learns whether no other store has the file open, and gives the locks up. */
  end(close: (isLast: boolean) => void): void {
    try {
      close(this.#isLast())
    } finally {
      this.#lock.close()
    }
  }

  #isLast(): boolean {
    try {
      this.#lock.exec('rollback')
      this.#lock.exec('pragma busy_timeout = 0')
      this.#lock.exec('begin exclusive')
      return true
    } catch {
      // A store that closes, or opens, at this moment is the last one instead. Or the files are gone.
      return false
    }
  }
}

const selectOwners = 'select description from worker where ended_at is null order by id desc limit 3'

function describeOwner(path: string): string {
  const unknown = 'another process that is still starting'
  let db: DatabaseSync | undefined
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 0 })
    const rows = db.prepare(selectOwners).all()
    return rows.map((row) => String(row.description)).join(', ') || unknown
  } catch {
    // The description is for the sentence only: an unreadable file must not hide that it is owned.
    return unknown
  } finally {
    db?.close()
  }
}
