/** How a command ends. The numbers are part of the interface: supervisors decide by them whether to start again. */
export const exitCode = {
  ok: 0,
  failed: 1,
  /** The command line or a setting is wrong: starting again will not help. */
  misused: 2,
  /** Another process owns the SQLite file. */
  owned: 3,
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
