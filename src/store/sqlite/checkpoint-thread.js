import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'

// A thread with a connection of its own. Asked to copy, it copies what has been committed from the log into the database,
// without a lock that keeps the writer waiting. Asked to wipe, it then empties the log, which keeps the writer waiting for
// the moment that takes. It answers how long the log is. It is JavaScript because what takes types away would be loaded
// into the thread as well: 17 MB.

const db = new DatabaseSync(workerData.path, { timeout: 0 })
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
    // Another connection is at it, or the disk is full; the next commit hears of a full disk.
  }
  parentPort?.postMessage({ logBytes, wiped })
})
