/** How a command ends. The numbers are part of the interface: supervisors decide by them whether to start again. */
export const exitCode = {
  ok: 0,
  failed: 1,
  /** The command line or a setting is wrong: starting again will not help. */
  misused: 2,
  /** Another process owns the SQLite file. */
  owned: 3,
  /** The server knows no such thing. */
  notFound: 4,
  /** No key, a wrong one, or one that may not do this. */
  denied: 5,
  /** What was asked for collides with what is there. */
  conflict: 6,
  /** The server cannot be reached or will not take more now: trying again later may help. */
  unavailable: 7,
} as const

/** A command cannot go on, for a reason its caller can act on. The message is all that is shown. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: number

  constructor(message: string, code: number, options?: ErrorOptions) {
    super(message, options)
    this.exitCode = code
  }
}
