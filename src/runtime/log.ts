import { styleText } from 'node:util'
import { type DestinationStream, type Logger, pino } from 'pino'
import { LineWriter } from './line-writer.ts'

export type { Logger } from 'pino'

/** Log levels, from most to least output. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** Forms of a line in the log: text for readers at a terminal, JSON for programs. */
export const logFormats = ['text', 'json'] as const
export type LogFormat = (typeof logFormats)[number]

/** The attempts that have a line of their own in the log. */
export const loggedAttempts = ['none', 'failed', 'all'] as const
export type LoggedAttempts = (typeof loggedAttempts)[number]

export interface LogOptions {
  readonly logLevel: LogLevel
  /** Null: text on a terminal, else JSON. */
  readonly logFormat: LogFormat | null
}

/**
 * Opens the log: one line per event on standard error. Standard output is for text that users read. The log never blocks
 * on its reader: see `LineWriter`.
 */
export function openLog(
  { logLevel, logFormat }: LogOptions,
  out: DestinationStream = standardError(),
  isTerminal: boolean = process.stderr.isTTY,
): Logger {
  const asText = (logFormat ?? (isTerminal ? 'text' : 'json')) === 'text'
  return pino({ level: logLevel, base: null, timestamp }, asText ? { write: (line) => out.write(textOf(line)) } : out)
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
export function textOf(line: string): string {
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
