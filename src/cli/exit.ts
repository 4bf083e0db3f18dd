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
