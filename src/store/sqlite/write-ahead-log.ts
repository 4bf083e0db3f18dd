import { statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { startThread } from '../../assets/assets.ts'
import { StoreTrouble } from '../store.ts'
import type { Connection } from './connection.ts'

/**
 * Waits for the disk beside the thread that commits. A commit that waits for it by itself lets everything else in this
 * process wait as well, about a millisecond each time. One wait is for all that was written to the log before it began.
 */
export class Disk {
  readonly #path: string
  #log: FileHandle | undefined
  #underWay: Promise<void> | undefined
  #next: Promise<void> | undefined
  /**
   * The disk failed to take something in. Earlier writes may then never get there though a later wait succeeds, and
   * the log behind them would be lost with them: the log must be emptied first.
   */
  failed = false

  /** The log of the database at this path; it must have been written to. */
  constructor(path: string) {
    this.#path = `${path}-wal`
  }

  /** Resolves when all that has been written to the log so far survives a power cut. */
  caughtUp(): Promise<void> {
    this.#next ??= this.#wait(this.#underWay)
    return this.#next
  }

  async close(): Promise<void> {
    await this.#next?.catch(() => {})
    await this.#underWay?.catch(() => {})
    await this.#log?.close()
  }

  async #wait(before: Promise<void> | undefined): Promise<void> {
    await before?.catch(() => {})
    this.#underWay = this.#next
    this.#next = undefined
    // Its commit may lie behind a write that the disk did not take in, of which the next wait would not hear.
    if (this.failed) throw new StoreTrouble('the disk did not take in what was written before')
    try {
      await this.sync()
    } catch (error) {
      this.failed = true
      throw new StoreTrouble(`the disk did not take in what was written: ${(error as Error).message}`, { cause: error })
    }
  }

  /** Writes the log out to the disk. */
  protected async sync(): Promise<void> {
    this.#log ??= await open(this.#path, 'r+')
    await this.#log.datasync()
  }
}

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
  const inodes = Object.fromEntries(
    [path, `${path}-wal`].map((name) => [name, statSync(name, { bigint: true, throwIfNoEntry: false })?.ino]),
  )
  const thread = startThread('store/sqlite/checkpoint-thread', { workerData: { path, inodes }, resourceLimits })
  const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
  const { clock, log } = connection.context
  let busy = false
  let commits = 0
  /** Wishes to empty the log that are not fulfilled, and how many of them the thread has been asked for. */
  let wishes = 0
  let asked = 0
  let cancelAgain: (() => void) | undefined

  function ask(): void {
    if (busy) return
    commits = 0
    busy = true
    asked = wishes
    thread.postMessage(wishes > 0 ? 'wipe' : 'copy')
  }

  thread.on('message', ({ logBytes, wiped }: Looked) => {
    busy = false
    // A wish that came meanwhile may be for a commit that the thread did not see any more.
    if (wiped) wishes -= asked
    if (wishes > 0) cancelAgain ??= clock.after(wipeAgainMs, () => wipeAgain())
    connection.noteLogLength(logBytes)
  })
  // Behind the listener for messages, which makes the process wait for the thread again.
  thread.unref()
  thread.on('error', (error) => {
    busy = true
    connection.wipeApart = undefined
    log?.(`the log is copied between commits from now on: ${error.message}`)
  })
  connection.onCommit = () => {
    if (++commits >= commitsBetween) ask()
  }
  connection.wipeApart = () => {
    wishes++
    ask()
  }

  function wipeAgain(): void {
    cancelAgain = undefined
    if (wishes > 0) ask()
  }

  return async () => {
    connection.onCommit = undefined
    connection.wipeApart = undefined
    wishes = 0
    cancelAgain?.()
    // From here on it is waited for.
    thread.ref()
    thread.postMessage('end')
    await ended
  }
}
