/** Log levels, from most to least output. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** Forms of a line in the log: text for readers at a terminal, JSON for programs. */
export const logFormats = ['text', 'json'] as const
export type LogFormat = (typeof logFormats)[number]

/** The attempts that have a line of their own in the log. */
export const loggedAttempts = ['none', 'failed', 'all'] as const
export type LoggedAttempts = (typeof loggedAttempts)[number]
