import { constants, fstatSync, openSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { styleText } from 'node:util'
import { type DestinationStream, type Logger, pino } from 'pino'
import type { LogFormat, LogLevel } from './log-settings.ts'
import { sourceStack } from './stack.ts'

export type { Logger } from 'pino'

interface LogOptions {
  readonly logLevel: LogLevel
  /** Null: text on a terminal, else JSON. */
  readonly logFormat: LogFormat | null
  /** Part of every line where several processes share a log. */
  readonly pid?: number | undefined
}

/**
 * Opens the log: one line per event on standard error. Standard output is for text that users read. The log never blocks
 * on its reader: see `LineWriter`.
 */
export function openLog(
  { logLevel, logFormat, pid }: LogOptions,
  out: DestinationStream = standardError(),
  isTerminal: boolean = process.stderr.isTTY,
): Logger {
  const asText = (logFormat ?? (isTerminal ? 'text' : 'json')) === 'text'
  return pino(
    { level: logLevel, base: pid === undefined ? null : { pid }, timestamp, serializers: { err: serialized } },
    asText ? { write: (line) => out.write(textOf(line)) } : out,
  )
}

/** An error as the log has it, with a stack that names the sources. */
function serialized(error: Error): unknown {
  const made = pino.stdSerializers.err(error)
  if (typeof made?.stack === 'string') made.stack = sourceStack(made.stack)
  return made
}

const timestamp = pino.stdTimeFunctions.isoTime

let shared: LineWriter | undefined

/** One writer for all logs of the process, so that their lines do not mix. */
function standardError(): LineWriter {
  shared ??= new LineWriter(2, (dropped) => {
    const msg = `${dropped} log lines were dropped, because nothing read them`
    return `{"level":40${timestamp()},"dropped":${dropped},"msg":"${msg}"}\n`
  })
  return shared
}

const colours = { trace: 'dim', debug: 'dim', info: 'cyan', warn: 'yellow', error: 'red', fatal: 'red' } as const

/** A line of the log as text: `2026-11-16 09:40:12.123Z warn  the sentence (name=value)`, with the trace of an error below. */
function textOf(line: string): string {
  const { level, time, msg, err, ...rest } = JSON.parse(line) as Record<string, unknown>
  const word = pino.levels.labels[Number(level)] as keyof typeof colours
  const style = (format: Parameters<typeof styleText>[0], text: string) =>
    styleText(format, text, { stream: process.stderr })
  const details = Object.entries(rest).map(([name, value]) => {
    return `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`
  })
  const at = style('dim', String(time).replace('T', ' '))
  const suffix = details.length === 0 ? '' : ` ${style('dim', withoutControls(`(${details.join(', ')})`))}`
  const trace = err === undefined ? '' : withoutControls(`\n${traceOf(err)}`).replaceAll('\n', '\n  ')
  return `${at} ${style(colours[word], word.padEnd(5))} ${withoutControls(String(msg ?? ''))}${suffix}${trace}\n`
}

function traceOf(error: unknown): string {
  const { stack, message } = (error ?? {}) as { stack?: unknown; message?: unknown }
  return String(stack ?? message ?? JSON.stringify(error))
}

/**
 * Characters that act on a terminal or on the order in which it shows others: controls of both kinds, bidirectional
 * overrides and isolates, line separators, and all other invisible format characters but the three that scripts need
 * within words. Line feeds and tabs stay.
 */
export const terminalControls = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\n\t\u00ad\u200c\u200d]]/gv

/** The text for a terminal: controls, which data of tenants and receivers may contain, are shown as dots. */
export function withoutControls(text: string): string {
  return text.replace(terminalControls, '·')
}

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
class LineWriter {
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
