import { executionAsyncResource } from 'node:async_hooks'
import { once } from 'node:events'
import type { Server } from 'node:net'
import { availableParallelism, hostname } from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { clearLine, createInterface, cursorTo } from 'node:readline'
import { isSea } from 'node:sea'
import { buffer as readAll } from 'node:stream/consumers'
import { styleText } from 'node:util'
import type { RunCommand } from '../features/alerts/receivers.ts'
import type { Logger } from './log.ts'
import { memberVariable } from './processes.ts'
import type { Address } from './setting-kinds.ts'

export type StopSignal = 'SIGTERM' | 'SIGINT'

/** The exit codes that shells report for these signals. */
const exitCodes: Readonly<Record<StopSignal, number>> = { SIGINT: 130, SIGTERM: 143 }
/** "Internal software error" of sysexits.h. */
const bugExitCode = 70
/** How long a stopping process waits for the reader of its standard output. */
const lastWordsMs = 2000

/** The process as commands use it. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly directory: string
  /** Identifies the process in text, such as `pid 12 on host`. */
  readonly description: string
  /** The beginning of a command line that runs this program, such as `npx sluice`. */
  readonly command: string
  /** The width of the terminal; undefined when standard output is a file or a pipe. */
  readonly columns: number | undefined
  print(text: string): void
  printError(text: string): void
  /** Writes to standard output unchanged; resolves when there is room for more. */
  write(chunk: string | Uint8Array): Promise<void>
  /** Shows progress in one line, which the next call replaces and '' erases. Only on a terminal. */
  progress(line: string): void
  /** Whether standard input is a keyboard. */
  readonly inputIsTyped: boolean
  /** Whether a question can be asked: standard input is a keyboard, and standard error a terminal. */
  readonly asks: boolean
  /** Asks a question on standard error and answers the typed line. */
  ask(question: string): Promise<string>
  /** All of standard input. */
  readInput(): Promise<Buffer>
  /** Sets what happens when the reader of the output closes it (`| head`): a silent exit, or no further output. */
  whenReaderCloses(then: 'exit' | 'continue'): void
  /** The text in bold, dim or a colour, if standard output supports it and NO_COLOR is not set. */
  style(format: Parameters<typeof styleText>[0], text: string): string
  /** Takes the whole terminal over for a view that is redrawn; undefined without a terminal. */
  readonly openScreen: typeof openScreen
  /** Resolves at the first signal to stop. A second signal exits at once. */
  stopRequested(): Promise<StopSignal>
}

export const systemTerminal: Terminal = {
  env: process.env,
  directory: process.cwd(),
  description: `pid ${process.pid} on ${hostname()}`,
  command: isSea() ? process.argv0 : 'npx sluice',
  get columns() {
    return process.stdout.isTTY ? process.stdout.columns : undefined
  },
  print: (text) => void process.stdout.write(`${text}\n`),
  printError: (text) => void process.stderr.write(`${text}\n`),
  write,
  progress,
  get inputIsTyped() {
    return process.stdin.isTTY
  },
  get asks() {
    return process.stdin.isTTY && process.stderr.isTTY
  },
  ask,
  readInput: () => readAll(process.stdin),
  whenReaderCloses,
  style: (format, text) => styleText(format, text, { stream: process.stdout }),
  openScreen,
  stopRequested,
}

/** Objects that are kept and never read. */
const kept: object[] = []

/**
 * Keeps `process.nextTick` fast. V8 optimizes the object that Node makes for each tick only while the first shape that it saw
 * exists, and a garbage collection in a moment without any tick removes the shape: each tick then took 0.5 µs instead of
 * 0.07 µs for the life of the process, in about every second start, and a publish has ten ticks. An object that is kept
 * keeps the shape. Call it before the program loads much.
 */
export function keepTicksFast(): void {
  process.nextTick(() => {
    kept.push(executionAsyncResource())
  })
}

async function write(chunk: string | Uint8Array): Promise<void> {
  if (!process.stdout.write(chunk)) await once(process.stdout, 'drain')
}

function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  return new Promise((resolve) => {
    lines.on('SIGINT', () => process.exit(exitCodes.SIGINT))
    // Ctrl-D closes the input without an answer.
    lines.on('close', () => resolve(''))
    lines.question(question, (line) => {
      resolve(line)
      lines.close()
    })
  })
}

function progress(line: string): void {
  if (!process.stderr.isTTY) return
  cursorTo(process.stderr, 0)
  clearLine(process.stderr, 1)
  process.stderr.write(line.slice(0, Math.max(0, process.stderr.columns - 1)))
}

let readerClosed: 'exit' | 'continue' | undefined

function whenReaderCloses(then: 'exit' | 'continue'): void {
  const onError = (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    if (readerClosed === 'exit') process.exit(0)
  }
  if (readerClosed === undefined) for (const stream of [process.stdout, process.stderr]) stream.on('error', onError)
  readerClosed = then
}

/** Whether a signal to stop arrived. */
let asked = false

function stopRequested(): Promise<StopSignal> {
  return new Promise((resolve) => {
    for (const signal of Object.keys(exitCodes) as StopSignal[]) {
      process.on(signal, () => {
        if (asked) process.exit(exitCodes[signal])
        asked = true
        resolve(signal)
      })
    }
  })
}

/**
 * Ends the process at the first unhandled error. Its memory may be inconsistent by then; the store is not, and the next
 * process continues from there.
 */
export function exitOnBugs(log: Logger): void {
  process.on('uncaughtException', (error, origin) => {
    log.fatal({ err: error, origin }, 'a bug: unhandled error')
    process.exit(bugExitCode)
  })
}

/** Runs the program, flushes its output and exits with its code, whatever is still open. */
export async function exitWith(program: Promise<number>): Promise<never> {
  const code = await program
  // A pipe holds 64 KiB; exiting at once would drop the rest. A stopping process waits for the reader only for a while.
  if (process.stdout.writableLength > 0) {
    await new Promise<void>((resolve) => {
      process.stdout.write('', () => resolve())
      if (asked) setTimeout(resolve, lastWordsMs)
    })
  }
  process.exit(code)
}

/** The arguments of the command line. An executable that is one of several processes gets the name of a script before them. */
export function commandLine(): string[] {
  return process.argv.slice(isSea() && process.env[memberVariable] !== undefined ? 3 : 2)
}

/**
 * Connections that wait in the kernel until this process accepts them, one in each turn of the event loop, 45 µs each. When Node's
 * default of 511 is full, the kernel drops the first packet of the next client, which asks again after a second. Linux keeps as many as
 * net.core.somaxconn says, 4096 by default.
 */
export const backlog = 4096

/**
 * Makes a server listen, and answers the address with its actual port. Other processes may listen on a shared address, too.
 * Rejects with the error of the system.
 */
export async function listenOn(server: Server, address: Address, isShared = false): Promise<Address> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ ...address, backlog, reusePort: isShared }, resolve)
  })
  return boundTo(server, address)
}

/** The address of a server that listens, with its actual port. */
export function boundTo(server: Server, { host, port }: Address): Address {
  const bound = server.address()
  return { host, port: typeof bound === 'object' && bound !== null ? bound.port : port }
}

/** How many cores this process may use. */
export const availableCores = availableParallelism

/** The process that this is, for lists of processes. */
export const thisProcess = { host: hostname(), pid: process.pid }

const outputLimit = 4096
/** Variables that a program needs to run at all. Others may be secrets of this process. */
const passedOn = ['PATH', 'HOME', 'USER', 'LANG', 'TZ', 'TMPDIR']

/**
 * Runs a program without a shell, with these values in its environment, and the input on its standard input. Kills it after
 * the time limit. Never rejects.
 */
export const runCommand: RunCommand = ([program = '', ...args], values, input, timeoutMs) =>
  new Promise((resolve) => {
    // Only here: an import takes 3 ms of the start of every command.
    const { spawn } = process.getBuiltinModule('node:child_process')
    const env: Record<string, string | undefined> = { ...values }
    for (const name of passedOn) if (process.env[name] !== undefined) env[name] = process.env[name]
    const child = spawn(program, args, { env, shell: false, timeout: timeoutMs, killSignal: 'SIGKILL' })
    let output = ''
    const keep = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(0, outputLimit)
    }
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    // A program need not read its input.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    child.on('error', (error) => resolve({ isDone: false, output: error.message }))
    // Not `close`: a grandchild may keep the output open.
    child.on('exit', (code, signal) => {
      const end = signal === 'SIGKILL' ? `killed after ${timeoutMs} ms` : `exit code ${code ?? signal}`
      resolve({ isDone: code === 0, output: code === 0 ? output : `${end}${output === '' ? '' : `: ${output}`}` })
    })
  })

/** The timer that measures the delay fires this often; its own interval is subtracted. */
const resolutionMs = 20
const windowMs = 15_000

/**
 * Begins to measure the delay of the event loop, in seconds. `read` answers the use of the machine by this process, and the
 * worse of the delays of the current window and the one before.
 */
export function watchProcess() {
  const monitor = monitorEventLoopDelay({ resolution: resolutionMs })
  monitor.enable()
  const ofMonitor = () => ({
    p50: delayOf(monitor.percentile(50)),
    p99: delayOf(monitor.percentile(99)),
    max: delayOf(monitor.max),
  })
  let before = { p50: 0, p99: 0, max: 0 }
  const timer = setInterval(() => {
    before = ofMonitor()
    monitor.reset()
  }, windowMs)
  timer.unref()
  const startedAt = Date.now() / 1000 - process.uptime()
  return {
    read() {
      const { user, system } = process.cpuUsage()
      const { rss, heapUsed } = process.memoryUsage()
      const now = ofMonitor()
      return {
        startedAt,
        cpuSeconds: (user + system) / 1e6,
        residentBytes: rss,
        heapBytes: heapUsed,
        loopDelay: {
          p50: Math.max(before.p50, now.p50),
          p99: Math.max(before.p99, now.p99),
          max: Math.max(before.max, now.max),
        },
      }
    },
    stop() {
      clearInterval(timer)
      monitor.disable()
    },
  }
}

/** Seconds beyond the interval of the timer. Without a measurement yet, the monitor answers a huge number or none. */
function delayOf(nanoseconds: number): number {
  const seconds = nanoseconds / 1e9 - resolutionMs / 1000
  return Number.isFinite(seconds) && seconds > 0 && seconds < 1e6 ? seconds : 0
}

/** The whole terminal, for a view that is redrawn in place. */
export interface Screen {
  readonly columns: number
  readonly rows: number
  /** Shows these lines from the top. Only lines that changed are written, in one go, so that nothing flickers. */
  draw(lines: readonly string[]): void
  /** Restores what was on the terminal before. It also happens when the process ends in any other way. */
  close(): void
}

const enter = '\x1b[?1049h\x1b[?25l\x1b[2J'
const leave = '\x1b[?25h\x1b[?1049l'
const clearToEnd = '\x1b[K'

/**
 * Takes the terminal over; undefined when standard input or output is none. `onKey` gets each key as the terminal sends it,
 * Ctrl-C included; `onResize` is called when the size has changed.
 */
function openScreen(onKey: (key: string) => void, onResize: () => void): Screen | undefined {
  const { stdin, stdout } = process
  if (!stdin.isTTY || !stdout.isTTY) return undefined
  let shown: readonly string[] = []
  let isOpen = true

  function close(): void {
    if (!isOpen) return
    isOpen = false
    process.off('exit', close)
    stdin.off('data', hear)
    stdout.off('resize', resized)
    stdin.setRawMode(false)
    stdin.pause()
    stdout.write(leave)
  }

  function hear(chunk: Buffer): void {
    const text = chunk.toString()
    // An escape sequence, such as an arrow, is one key; anything else may be several that were typed quickly.
    for (const key of text.startsWith('\x1b') ? [text] : text) onKey(key)
  }

  function resized(): void {
    shown = []
    stdout.write('\x1b[2J')
    onResize()
  }

  stdin.setRawMode(true)
  stdin.resume()
  stdin.on('data', hear)
  stdout.on('resize', resized)
  // A crash ends the process with its handlers of `exit`.
  process.on('exit', close)
  stdout.write(enter)
  return {
    get columns() {
      return stdout.columns
    },
    get rows() {
      return stdout.rows
    },
    draw(lines) {
      if (!isOpen) return
      const wanted = lines.slice(0, stdout.rows)
      let changes = ''
      for (let row = 0; row < Math.max(wanted.length, shown.length); row++) {
        if (wanted[row] !== shown[row]) changes += `\x1b[${row + 1};1H${wanted[row] ?? ''}\x1b[0m${clearToEnd}`
      }
      shown = wanted
      if (changes !== '') stdout.write(changes)
    },
    close,
  }
}
