import { once } from 'node:events'
import { hostname } from 'node:os'
import { clearLine, cursorTo } from 'node:readline'
import { buffer as readAll } from 'node:stream/consumers'
import { styleText } from 'node:util'
import type { Logger } from './log.ts'

export type StopSignal = 'SIGTERM' | 'SIGINT'

/** What a shell calls a process ended by the signal. */
const exitCodes: Readonly<Record<StopSignal, number>> = { SIGINT: 130, SIGTERM: 143 }
/** "Internal software error" of sysexits.h. */
const bugExitCode = 70
/** How long a process that was asked to stop waits for the reader of its standard output. */
const lastWordsMs = 2000

/** The process as the commands see it. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly directory: string
  /** For people, in a sentence: which process this is. */
  readonly description: string
  /** How wide the terminal is that standard output goes to; undefined when it goes elsewhere. */
  readonly columns: number | undefined
  print(text: string): void
  printError(text: string): void
  /** Writes to standard output as it is; resolves when there is room for more. */
  write(chunk: string | Uint8Array): Promise<void>
  /** Shows how far long work is, in one line that the next replaces and '' erases. Only on a terminal. */
  progress(line: string): void
  /** Whether a person would have to type what standard input gives. */
  readonly inputIsTyped: boolean
  /** All of standard input. */
  readInput(): Promise<Buffer>
  /** From now on, when whoever reads standard output has seen enough (`| head`), the process ends without complaint. */
  endWithReader(): void
  /** The text in bold, dim or a colour, where standard output shows such things and NO_COLOR does not forbid them. */
  style(format: Parameters<typeof styleText>[0], text: string): string
  /** Resolves when the process is asked to stop. Asked a second time, it exits at once. */
  stopRequested(): Promise<StopSignal>
}

export const systemTerminal: Terminal = {
  env: process.env,
  directory: process.cwd(),
  description: `pid ${process.pid} on ${hostname()}`,
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
  readInput: () => readAll(process.stdin),
  endWithReader,
  style: (format, text) => styleText(format, text, { stream: process.stdout }),
  stopRequested,
}

async function write(chunk: string | Uint8Array): Promise<void> {
  if (!process.stdout.write(chunk)) await once(process.stdout, 'drain')
}

function progress(line: string): void {
  if (!process.stderr.isTTY) return
  cursorTo(process.stderr, 0)
  clearLine(process.stderr, 1)
  process.stderr.write(line.slice(0, Math.max(0, process.stderr.columns - 1)))
}

function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit(0)
  })
}

/** Whether the process was asked to stop. */
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
 * Ends the process at the first error that nobody handled. What it held is then in a state nobody designed; the store
 * is not, and whoever starts next carries on from there.
 */
export function exitOnBugs(log: Logger): void {
  process.on('uncaughtException', (error, origin) => {
    log.fatal({ err: error, origin }, 'a bug: nobody handled this error')
    process.exit(bugExitCode)
  })
}

/** Runs the program to its end and exits with the code it gives, whatever is still open. What it said is said first. */
export async function exitWith(program: Promise<number>): Promise<never> {
  const code = await program
  // A pipe takes 64 KiB; exiting would drop what its reader has not made room for yet. A process that was asked to stop
  // does not wait for a reader for ever.
  if (process.stdout.writableLength > 0) {
    await new Promise<void>((resolve) => {
      process.stdout.write('', () => resolve())
      if (asked) setTimeout(resolve, lastWordsMs)
    })
  }
  process.exit(code)
}

/** What the program was called with. */
export function commandLine(): string[] {
  return process.argv.slice(2)
}
