import { Worker } from 'node:worker_threads'
import type { Connection } from './connection.ts'

/** After so many commits the log is looked at: about once a second when little happens, every 100 ms when much does. */
const commitsBetween = 16

/** What the thread may use of memory; it holds next to nothing. */
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 }

/**
 * Has the log copied into the database by a thread of its own. Left to the commit that finds the log too long, it takes
 * 10 to 100 ms during which nothing else happens in this process. That commit still ends it: it finds little left to copy,
 * and starts the log anew. Resolves when the thread has ended.
 */
export function checkpointApart(connection: Connection, path: string): () => Promise<void> {
  const file = new URL('./checkpoint-thread.js', import.meta.url)
  const thread = new Worker(file, { workerData: { path }, resourceLimits, execArgv: [] })
  const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
  let busy = false
  let commits = 0
  thread.unref()
  thread.on('message', () => {
    busy = false
  })
  thread.on('error', (error) => {
    busy = true
    connection.context.log?.(`the log is copied between commits from now on: ${error.message}`)
  })
  connection.onCommit = () => {
    if (++commits < commitsBetween || busy) return
    commits = 0
    busy = true
    thread.postMessage('copy')
  }
  return async () => {
    connection.onCommit = undefined
    // From here on it is waited for.
    thread.ref()
    thread.postMessage('end')
    await ended
  }
}
