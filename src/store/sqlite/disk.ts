import { type FileHandle, open } from 'node:fs/promises'
import { StoreTrouble } from '../store.ts'

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
