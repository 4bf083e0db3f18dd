import { type DestinationStream, destination, type Logger, pino } from 'pino'

export type { Logger } from 'pino'

/** How much is told, from most to least. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/**
 * Opens the log: one JSON line per event on standard error, so that standard output stays with what a person reads.
 * It writes synchronously, because the last line before a crash is the one that matters; nothing logs per request.
 */
export function openLog(level: LogLevel, out: DestinationStream = destination({ dest: 2, sync: true })): Logger {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, out)
}
