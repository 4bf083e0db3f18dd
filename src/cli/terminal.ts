import { createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Clock } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import { withCommas } from '../domain/phrases.ts'
import { terminalControls, withoutControls } from '../runtime/log.ts'
import type { Terminal } from '../runtime/process.ts'

/** The exit codes. They are part of the interface: supervisors decide by them whether to restart. */
export const exitCode = {
  ok: 0,
  failed: 1,
  /** The command line or a setting is wrong: a restart does not help. */
  misused: 2,
  /** Another process owns the SQLite file. */
  owned: 3,
  /** The resource does not exist. */
  notFound: 4,
  /** The key is missing, wrong or lacks the permission. */
  denied: 5,
  /** The request conflicts with an existing resource. */
  conflict: 6,
  /** The server cannot be reached or is overloaded: a later attempt may succeed. */
  unavailable: 7,
  /** The time was up while work was left: the next run goes on with it. */
  unfinished: 8,
  /** `migrate --check`: processes that run now would not survive the migrations. */
  stopFirst: 9,
} as const

/** A command failed for a reason that its caller can act on. Only the message is printed. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: number

  constructor(message: string, code: number, options?: ErrorOptions) {
    super(message, options)
    this.exitCode = code
  }
}

/**
 * A terminal that never passes on control sequences from data. Names, descriptions, payloads and responses come from
 * tenants and receivers and reach the operator's terminal through many commands, so all output is cleaned here and not in
 * each command. Our own colours survive: `style` marks them with random text, and only marked ones become escapes.
 */
export function cleanTerminal(terminal: Terminal, randomText: RandomText): Terminal {
  const mark = `⟦${randomText(16)}⟧`
  const clean = (text: string) => withoutControls(text).replaceAll(mark, '\x1b')
  const decoder = new TextDecoder()
  // All other members, getters included, are inherited from the terminal.
  return Object.create(terminal, {
    print: { value: (text: string) => terminal.print(clean(text)) },
    printError: { value: (text: string) => terminal.printError(clean(text)) },
    ask: { value: (question: string) => terminal.ask(clean(question)) },
    progress: { value: (line: string) => terminal.progress(clean(line)) },
    openScreen: {
      value: (...listeners: Parameters<Terminal['openScreen']>) => {
        const screen = terminal.openScreen(...listeners)
        const draw = (lines: readonly string[]) => screen?.draw(lines.map(clean))
        return screen && Object.create(screen, { draw: { value: draw } })
      },
    },
    style: {
      value: (format: Parameters<Terminal['style']>[0], text: string) =>
        terminal.style(format, withoutControls(text)).replaceAll('\x1b', mark),
    },
    write: {
      // A file or a pipe gets the bytes unchanged. They are lines of JSON, so for a terminal they can be escaped.
      value: (chunk: string | Uint8Array) => {
        if (terminal.columns === undefined) return terminal.write(chunk)
        return terminal.write(escaped(typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })))
      },
    },
  }) as Terminal
}

/** JSON for standard output. Characters that act on a terminal are escaped, so no data is lost. */
export function toJson(value: unknown, indent?: number): string {
  return escaped(JSON.stringify(value, null, indent))
}

function escaped(json: string): string {
  return json.replace(terminalControls, (sign) => {
    // JSON writes characters beyond U+FFFF as two halves.
    return Array.from({ length: sign.length }, (_, i) => `\\u${sign.charCodeAt(i).toString(16).padStart(4, '0')}`).join(
      '',
    )
  })
}

const barWidth = 24

/** Progress of long work: the number done, and a bar when the share of the whole is known. */
export function progressLine(what: string, done: number, share?: number): string {
  const count = withCommas(done)
  if (share === undefined) return `${what} ${count}`
  const part = Math.min(1, Math.max(0, share))
  const full = Math.round(part * barWidth)
  const bar = `${'█'.repeat(full)}${'░'.repeat(barWidth - full)}`
  return `${what} ${bar} ${String(Math.floor(part * 100)).padStart(3)} %  ${count}`
}

/** Shows progress while the work runs, on a terminal only, and erases it when the work ends or fails. */
export async function withProgress<T>(
  terminal: Terminal,
  work: (show: (line: string) => void) => Promise<T>,
): Promise<T> {
  try {
    return await work((line) => terminal.progress(line))
  } finally {
    terminal.progress('')
  }
}

export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.after(ms, resolve))
}

/** The bytes of a file that the command line names. */
export async function readNamedFile({ directory }: Terminal, name: string): Promise<Buffer> {
  try {
    return await readFile(resolve(directory, name))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    const reason = code === 'ENOENT' ? 'no such file' : code
    throw new CommandError(`Cannot read ${name}: ${reason}.`, exitCode.misused, { cause: error })
  }
}

/** The bytes of a file, or of standard input for `-`. */
export function readFileOrInput(terminal: Terminal, name: string): Promise<Buffer> {
  return name === '-' ? terminal.readInput() : readNamedFile(terminal, name)
}

/** Writes to a file, or without a name to standard output at the pace of its reader. */
export async function writeOutput(
  terminal: Terminal,
  name: string | undefined,
  chunks: AsyncIterable<Uint8Array>,
): Promise<void> {
  const standardOutput = () =>
    new Writable({
      write(chunk: Uint8Array, _encoding, done) {
        void terminal.write(chunk).then(() => done(), done)
      },
    })
  const out = name === undefined ? standardOutput() : createWriteStream(resolve(terminal.directory, name))
  await pipeline(chunks, out).catch((error: NodeJS.ErrnoException) => {
    if (error.syscall === undefined) throw error
    throw new CommandError(`Cannot write ${name}: ${error.code}.`, exitCode.failed, { cause: error })
  })
}
