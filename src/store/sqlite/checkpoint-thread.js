import { statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'

// A thread with a connection of its own. Asked to copy, it copies committed pages from the log into the database, without
// a lock that keeps the writer waiting. Asked to wipe, it then empties the log, which keeps the writer waiting for a
// moment. It answers how long the log is. It is JavaScript because the code that strips types would be loaded into the
// thread as well: 17 MB.

const { path, inodes } = workerData

// A file that was put in place of the database while the thread started must not get the pages of the old log.
for (const [name, inode] of Object.entries(inodes)) {
  if (statSync(name, { bigint: true, throwIfNoEntry: false })?.ino !== inode) {
    throw new Error(`${name} was deleted or replaced`)
  }
}
const db = new DatabaseSync(path, { timeout: 0 })
const copy = db.prepare('pragma wal_checkpoint(passive)')
const wipe = db.prepare('pragma wal_checkpoint(truncate)')
const pageBytes = db.prepare('pragma page_size').get().page_size

parentPort?.on('message', (asked) => {
  if (asked === 'end') {
    db.close()
    parentPort?.close()
    return
  }
  let logBytes = 0
  let wiped = false
  try {
    logBytes = Math.max(0, copy.get().log) * pageBytes
    wiped = asked === 'wipe' && wipe.get().busy === 0
    if (wiped) logBytes = 0
  } catch {
    // Another connection is copying, or the disk is full; the next commit reports a full disk.
  }
  parentPort?.postMessage({ logBytes, wiped })
})
