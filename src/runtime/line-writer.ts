import { constants, fstatSync, openSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'

/** Bytes that wait for the reader at most; a pipe holds 64 KiB more. */
const bufferBytes = 1024 * 1024
const lookAgainMs = 50
/** How long the process waits for a slow reader before it exits. */
const lastFlushMs = 500

/**
 * Writes lines to standard output or error without ever waiting for the reader. A reader that stalls (a pager, a full
 * pipe, Ctrl-S on a terminal) would otherwise stop the whole server at its next line. Lines are written at once while the
 * reader keeps up, so the last one before a crash is not lost. Otherwise they wait, up to 1 MiB; further lines are dropped
 * and counted, and the count is written as soon as there is room again.
 */
export class LineWriter {
  readonly #fd: number
  readonly #noticeOf: (dropped: number) => string
  #waiting: Buffer[] = []
  #waitingBytes = 0
  #dropped = 0
  #timer: NodeJS.Timeout | undefined
  #gone = false

  /** `noticeOf` makes the line that reports dropped lines. */
  constructor(fd: 1 | 2, noticeOf: (dropped: number) => string) {
    this.#fd = openNonBlocking(fd)
    this.#noticeOf = noticeOf
    process.once('exit', () => this.flushSync())
  }

  write(line: string): void {
    if (this.#gone) return
    const bytes = Buffer.from(line)
    if (this.#waitingBytes + bytes.length > bufferBytes) {
      this.#dropped++
      return
    }
    this.#waiting.push(bytes)
    this.#waitingBytes += bytes.length
    // While earlier lines wait, the timer writes this one behind them.
    if (this.#timer === undefined) this.#drain()
  }

  /** Writes as much as the reader takes within half a second. Called when no turn of the event loop follows. */
  flushSync(): void {
    const until = performance.now() + lastFlushMs
    while (!this.#writeSome() && performance.now() < until) Atomics.wait(sleeper, 0, 0, 5)
  }

  #drain(): void {
    this.#timer = undefined
    if (this.#writeSome()) return
    this.#timer = setTimeout(() => this.#drain(), lookAgainMs)
    // A reader that is gone for good must not keep the process alive.
    this.#timer.unref()
  }

  /** Writes as much as the reader takes; returns whether that was everything. */
  #writeSome(): boolean {
    for (;;) {
      const [first] = this.#waiting
      if (first === undefined) {
        if (this.#dropped === 0) return true
        const notice = Buffer.from(this.#noticeOf(this.#dropped))
        this.#dropped = 0
        this.#waiting.push(notice)
        this.#waitingBytes += notice.length
        continue
      }
      const written = this.#try(first)
      if (written === undefined) return this.#gone
      this.#waitingBytes -= written
      if (written === first.length) this.#waiting.shift()
      else this.#waiting[0] = first.subarray(written)
    }
  }

  #try(bytes: Buffer): number | undefined {
    try {
      return writeSync(this.#fd, bytes)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // The reader is gone (EPIPE, EIO) or the disk is full: the server continues without its log.
      if (code !== 'EAGAIN' && code !== 'EINTR') this.#giveUp(code)
      return undefined
    }
  }

  #giveUp(code: string | undefined): void {
    if (code === 'ENOSPC') {
      this.#dropped += this.#waiting.length
      this.#waiting = []
      this.#waitingBytes = 0
      return
    }
    this.#gone = true
    this.#waiting = []
    this.#waitingBytes = 0
  }
}

const sleeper = new Int32Array(new SharedArrayBuffer(4))

/**
 * A non-blocking descriptor for the same file. It is a new open file where possible, because the flag belongs to the open
 * file, which other processes may share: a shell would find its terminal changed. Sockets cannot be opened a second time;
 * for them libuv sets the flag on the existing descriptor. A regular file has no reader that could stall, and its descriptor
 * is taken as it is: after `> log 2>&1` the two streams share one position, and a second open file would have its own, so
 * that lines of one stream overwrote lines of the other.
 */
function openNonBlocking(fd: 1 | 2): number {
  const kind = fstatSync(fd)
  if (kind.isFile()) return fd
  try {
    return openSync(
      `/proc/self/fd/${fd}`,
      constants.O_WRONLY | constants.O_NONBLOCK | constants.O_APPEND | constants.O_NOCTTY,
    )
  } catch (error) {
    if (!['ENXIO', 'ENOENT', 'EACCES', 'ENOTDIR', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw error
  }
  if (kind.isFIFO() || kind.isSocket()) new Socket({ fd, readable: false, writable: true }).unref()
  return fd
}
