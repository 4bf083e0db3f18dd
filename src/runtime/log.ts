import { type DestinationStream, type Logger, pino } from 'pino'
import { LineWriter } from './line-writer.ts'

export type { Logger } from 'pino'

/** Log levels, from most to least output. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/**
 * Opens the log: one JSON line per event on standard error. Standard output is for text that users read. The log never
 * blocks on its reader: see `LineWriter`.
 */
export function openLog(level: LogLevel, out: DestinationStream = standardError()): Logger {
  return pino({ level, base: null, timestamp }, out)
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
