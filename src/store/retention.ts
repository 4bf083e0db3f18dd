/** Letting go of what is old. Everything here is done a bounded bit at a time, and harmless when done twice. */
export interface Retention {
  /**
   * Removes some of what is older than it is kept for: messages with their attempts, dead letters, tasks that have ended.
   * A message that still waits somewhere, or has a dead letter that is kept, stays with all that is known of it.
   */
  retain(limits: RetentionLimits): Promise<Retained>
  /** Keeps the database in shape: on Postgres a place for the days to come, on SQLite a file no larger than need be. */
  upkeep(): Promise<void>
  /** Messages whose body was to be kept only until now. */
  duePayloadEnds(limit: number): Promise<number[]>
  /** Says that these messages' bodies are erased. */
  forgetPayloadEnds(messages: readonly number[]): Promise<void>
}

/** How long things are kept; null for ever. */
export interface RetentionLimits {
  readonly historyMs: number | null
  readonly deadMs: number | null
}

export interface Retained {
  /** How many rows, and on Postgres tables of whole days. */
  readonly removed: number
  /** Whether there is more to remove right away. */
  readonly more: boolean
}

export const nothingRetained: Retained = { removed: 0, more: false }
