import type { OutcomeCode } from '../domain/outcome.ts'

/** Why no connection could be had: made where the cause is known, so that nobody has to guess it from an errno. */
export class ConnectFailure extends Error {
  override readonly name = 'ConnectFailure'
  readonly outcome: OutcomeCode

  constructor(outcome: OutcomeCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.outcome = outcome
  }
}
