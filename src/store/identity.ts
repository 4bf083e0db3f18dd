/** A new row's key and the id made from it. */
export interface Identity {
  readonly key: number
  readonly id: string
}

/**
 * How many keys are tried for one row. A key is taken only when two processes have the same one of 32 node numbers, or
 * when the clock was set back over a restart. Each try uses another number, so this many failures mean another mistake.
 */
export const identityTries = 100
