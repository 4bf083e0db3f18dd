import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Everything the checker knows of a run, as producers, receivers and the public API saw it. Instants are milliseconds of the
 * machine's steady clock, which every process reads alike and no fault moves.
 */
export interface Histories {
  readonly endpoints: readonly Endpoint[]
  readonly published: readonly Published[]
  readonly arrived: readonly Arrived[]
  readonly sent: readonly Sent[]
  readonly states: readonly State[]
  readonly faults: readonly Fault[]
}

/** Where an application's messages go, and what that endpoint was promised. */
export interface Endpoint {
  readonly app: string
  readonly path: string
  readonly rate?: number
  readonly burst?: number
  readonly concurrency?: number
  readonly order?: 'fifo' | 'key'
  /** Whether the receiver asks for time with `Retry-After`; the endpoint then has a concurrency of 1. */
  readonly holds?: true
}

/** A message, and the last answer to its producer. */
export interface Published {
  readonly n: number
  readonly app: string
  readonly orderingKey: string | null
  readonly body: string
  readonly askedAt: number
  /** When the answer was read; of an unknown outcome, when the producer gave up. */
  readonly knownAt: number
  /** `unsent` was never on the wire: no server listened. */
  readonly outcome: 'accepted' | 'refused' | 'unknown' | 'unsent'
  readonly status: number
  readonly id: string
  /** How often it was asked, each time with the same `Idempotency-Key`. */
  readonly asked: number
}

/** One request at the receiver. */
export interface Arrived {
  readonly path: string
  readonly id: string
  readonly body: string
  /** It came after this instant, and was read at the next one. */
  readonly notBefore: number
  readonly at: number
  readonly endedAt: number | null
  readonly end: 'answered' | 'cut off' | null
  readonly status: number | null
  readonly retryAfterMs: number | null
}

/** One attempt in the server's own record. */
export interface Sent {
  readonly path: string
  readonly id: string
  readonly code: string
}

/** The server's last word on a delivery. */
export interface State {
  readonly path: string
  readonly id: string
  readonly state: string
}

/** A fault from its begin to the instant from which all is well again. */
export interface Fault {
  readonly kind: string
  readonly seed: number
  readonly from: number
  readonly until: number
  /** How long before it an answer may have come that its worker had not recorded for good. */
  readonly unrecordedMs: number
  /** A frozen process cannot close its connections, so that more than `concurrency` may be open. */
  readonly leavesOpen: boolean
  /** The store's clock, by which a Retry-After is kept while no worker owns the lane, was moved. */
  readonly movesHolds: boolean
  /** When the primary took its last write, and when another server took its place. */
  readonly gone?: number
  readonly promoted?: number
  /** Counts of what was done: writes that were lost, syncs that failed, disks that were rebuilt. */
  readonly did: Readonly<Record<string, number>>
}

/** Writes each history to a file of its own, a JSON object per line. */
export function keepHistories(folder: string, histories: Histories): void {
  for (const [name, records] of Object.entries(histories)) {
    const lines = (records as readonly object[]).map((record) => `${JSON.stringify(record)}\n`)
    writeFileSync(join(folder, `${name}.jsonl`), lines.join(''))
  }
}
