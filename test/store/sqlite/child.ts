import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Place } from '../sqlite-harness.ts'

/** Another process on the same file, killed before the file goes. */
export class Child {
  readonly process: ChildProcess
  readonly #lines: AsyncIterator<string>

  constructor(place: Place, role: 'owner' | 'guest') {
    const script = join(import.meta.dirname, 'publisher.ts')
    this.process = spawn(process.execPath, [script, place.path, role], { stdio: ['pipe', 'pipe', 'inherit'] })
    assert(this.process.stdout)
    this.#lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]()
    place.closeFirst(() => this.kill())
  }

  /** The next line it prints. */
  async line(): Promise<string | undefined> {
    const { value, done } = await this.#lines.next()
    return done ? undefined : value
  }

  tell(word: string): void {
    this.process.stdin?.write(`${word}\n`)
  }

  /** Has it close its store and end. */
  async end(): Promise<void> {
    const exited = once(this.process, 'exit')
    this.process.stdin?.end()
    await exited
  }

  /** Ends it as a power cut would: no handler runs. */
  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return
    const exited = once(this.process, 'exit')
    this.process.kill('SIGKILL')
    await exited
  }
}
