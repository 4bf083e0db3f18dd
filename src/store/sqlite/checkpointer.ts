import { statSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import type { Connection } from './connection.ts'

/** After so many commits the log is looked at: about once a second when little happens, every 100 ms when much does. */
const commitsBetween = 16

/** How soon a log that could not be emptied, because it is being read, is tried again. */
const wipeAgainMs = 200

/** The memory limit of the thread, which holds next to nothing. */
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 }

/** The thread's answer. */
interface Looked {
  readonly logBytes: number
  /** Whether the log was emptied, if that was asked. */
  readonly wiped: boolean
}

/**
 * Has the log copied into the database by a thread of its own. Left to the commit that finds the log too long, it takes
 * 10 to 100 ms during which nothing else happens in this process. That commit still ends it: it finds little left to copy,
 * and starts the log from its beginning. Resolves when the thread has ended.
 */
export function checkpointApart(connection: Connection, path: string): () => Promise<void> {
  const file = new URL('./checkpoint-thread.js', import.meta.url)
  const inodes = Object.fromEntries(
    [path, `${path}-wal`].map((name) => [name, statSync(name, { bigint: true, throwIfNoEntry: false })?.ino]),
  )
  const thread = new Worker(file, { workerData: { path, inodes }, resourceLimits, execArgv: [] })
  const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
  const { clock, log } = connection.context
  let busy = false
  let commits = 0
  let wanted = false
  let cancelAgain: (() => void) | undefined
  thread.unref()

  function ask(): void {
    if (busy) return
    commits = 0
    busy = true
    thread.postMessage(wanted ? 'wipe' : 'copy')
  }

  thread.on('message', ({ logBytes, wiped }: Looked) => {
    busy = false
    if (wiped) wanted = false
    else if (wanted) cancelAgain ??= clock.after(wipeAgainMs, () => wipeAgain())
    connection.noteLogLength(logBytes)
  })
  thread.on('error', (error) => {
    busy = true
    connection.wipeApart = undefined
    log?.(`the log is copied between commits from now on: ${error.message}`)
  })
  connection.onCommit = () => {
    if (++commits >= commitsBetween) ask()
  }
  connection.wipeApart = () => {
    wanted = true
    ask()
  }

  function wipeAgain(): void {
    cancelAgain = undefined
    if (wanted) ask()
  }

  return async () => {
    connection.onCommit = undefined
    connection.wipeApart = undefined
    wanted = false
    cancelAgain?.()
    // From here on it is waited for.
    thread.ref()
    thread.postMessage('end')
    await ended
  }
}
