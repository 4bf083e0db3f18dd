import { DatabaseSync } from 'node:sqlite'
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

const selectOwners = 'select description from worker where ended_at is null order by id desc limit 3'

/**
 * Takes the lock that makes this process the file's only owner, or throws `FileOwnedError` at once. The answer gives it
 * back.
 *
 * The lock is an exclusive transaction on a second, empty database beside the file: a lock of the kernel's, which ends
 * with the process however it ends, so that there is nothing stale to clean up. It cannot sit on the file itself, where
 * it would shut out the processes that only publish.
 */
export function lockFile(path: string): () => void {
  const lock = new DatabaseSync(`${path}-owner`, { timeout: 0 })
  try {
    // A rollback journal is what makes the transaction take the exclusive lock; it stays empty, since nothing is written.
    lock.exec('pragma journal_mode = delete')
    lock.exec('begin exclusive')
  } catch (error) {
    lock.close()
    if (!isBusy(error)) throw error
    throw new FileOwnedError(path, describeOwner(path))
  }
  return () => lock.close()
}

function describeOwner(path: string): string {
  const unknown = 'another process that is still starting'
  let db: DatabaseSync | undefined
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 0 })
    const rows = db.prepare(selectOwners).all()
    return rows.map((row) => String(row.description)).join(', ') || unknown
  } catch {
    // Only for the sentence: whatever is wrong with the file, its being owned is what has to be said.
    return unknown
  } finally {
    db?.close()
  }
}
