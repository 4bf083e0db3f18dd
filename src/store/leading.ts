/**
 * Who does what is to be done once for the whole store: one process at a time, for a lease that it keeps renewing. Each
 * leader has a higher epoch than the one before. What a leader does is safe when two believe to lead for a moment: every
 * job compares and sets, or can be done twice.
 */
export interface Leading {
  /** Takes or renews the lead; `leads: false` when somebody else has it. */
  lead(candidate: Candidate, leaseMs: number): Promise<Lead>
  /** Gives the lead up, for another to take at once. */
  resign(candidate: Candidate): Promise<void>
  /** Who leads at this moment; undefined when nobody does. */
  leader(): Promise<Leader | undefined>
}

export interface Candidate {
  /** Another one for each process. */
  readonly id: string
  /** For people: host, process id, what it listens on. */
  readonly description: string
}

export interface Lead {
  readonly leads: boolean
  readonly epoch: number
  /** How long the lead that there is now holds without being renewed. */
  readonly leftMs: number
}

export interface Leader {
  readonly description: string
  readonly epoch: number
  readonly sinceMs: number
}
