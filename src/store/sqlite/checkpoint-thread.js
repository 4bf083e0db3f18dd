import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'

// A thread with a connection of its own: each time it is asked, it copies what has been committed from the log into the
// database, and says so. It takes no lock that keeps the writer waiting. It is JavaScript because what takes types away
// would be loaded into the thread as well: 17 MB.

const db = new DatabaseSync(workerData.path, { timeout: 0 })
const checkpoint = db.prepare('pragma wal_checkpoint(passive)')

parentPort?.on('message', (asked) => {
  if (asked === 'end') {
    db.close()
    parentPort?.close()
    return
  }
  try {
    checkpoint.get()
  } catch {
    // Somebody else is at it, or the disk is full, which whoever commits next is told.
  }
  parentPort?.postMessage('copied')
})
