import type { CircuitState } from './health.ts'

/**
 * A lane as its owner sees it at one moment, with facts that no table has. All times are durations from that moment, so a
 * reader needs to know only how long ago it was.
 */
export interface LaneSnapshot {
  readonly worker: number
  /** Numbers the snapshots of a worker. */
  readonly n: number
  readonly inFlight: number
  readonly concurrency: number
  /** Deliveries being sent, the longest first, up to `namedLimit`. */
  readonly sending: readonly { readonly message: number; readonly forMs: number }[]
  /** Messages whose result is not recorded yet, up to `namedLimit`. */
  readonly recording: readonly number[]
  /** Deliveries in memory that have not started, per class. */
  readonly queued: readonly [fresh: number, timed: number, replay: number]
  /** When the bucket gives the next token: 0 for now, null when there is no limit. */
  readonly tokenMs: number | null
  /** Requests a second that the bucket lets through, if there is one. */
  readonly rate: number | null
  /** In an ordered lane, when ordering lets a delivery start; `waitMs` is null until an attempt ends or an operator acts. */
  readonly order: { readonly waitMs: number | null } | null
  /** How long a Retry-After still holds the lane. */
  readonly holdMs: number
  readonly circuit?: CircuitState
  /** Whether the latest attempts failed, without a success since. */
  readonly failing?: boolean
  /** How long an open circuit still lets nothing start: 0 for no longer, null until an operator closes it. */
  readonly silentMs?: number | null
  /** When the climbing rate allows the next request: 0 for now. */
  readonly paceMs?: number
  /** When the application's rate allows the next request: 0 for now. */
  readonly appMs?: number
  /** When the limit of failed attempts allows the next request: 0 for now. */
  readonly failuresMs?: number
  /** The slots that the lane waits for, though it may send. */
  readonly crowded: Crowded | null
  readonly app: Slots
  readonly process: Slots
  /** Why the worker starts nothing at all just now. */
  readonly standstill: Standstill | null
  /** Whether the lane is on its way to another worker. */
  readonly leaving: boolean
  /** How long ago a row was added or an attempt ended. */
  readonly activeAgoMs: number
  /** Recent attempts per second; null in the first second. */
  readonly pace: number | null
  /** Over how long that was measured. */
  readonly seenMs?: number
  /** The mean time of recent attempts; null before the first has ended. */
  readonly attemptMs?: number | null
}

/**
 * `share`: the free slots are left for others; `application`: its application has all slots that it may have; `process`: no
 * slot is free; `slow` and `untried`: the free slots are kept for endpoints that answer quickly.
 */
export type Crowded = 'share' | 'application' | 'process' | 'slow' | 'untried'

/** `lease`: the worker is not sure of its lease; `store`: the store is in trouble; `recording`: too much is unrecorded. */
export type Standstill = 'lease' | 'store' | 'recording'

/** Lanes of a worker that could send, and have waited for one of its slots. */
export interface SlotWaits {
  readonly lanes: number
  readonly longestMs: number
  /** Some of their endpoints. */
  readonly endpoints: readonly number[]
}

export interface Slots {
  readonly inFlight: number
  readonly limit: number
}

/** The number of messages that a snapshot names at most, because it is stored in a row. */
export const namedLimit = 64

/** The snapshot as text, with numbers rounded to microseconds. A rate is exact: one a minute is 0.017 a second otherwise. */
export function writeSnapshot(snapshot: LaneSnapshot): string {
  return JSON.stringify(snapshot, (name, value) =>
    name !== 'rate' && typeof value === 'number' && !Number.isInteger(value) ? Number(value.toFixed(3)) : value,
  )
}

/** The snapshot from text; undefined when this version cannot read it, such as the text of a newer one. */
export function readSnapshot(text: string | null): LaneSnapshot | undefined {
  if (text === null) return undefined
  try {
    const read = JSON.parse(text) as Partial<LaneSnapshot> | null
    const isWhole =
      typeof read?.worker === 'number' &&
      typeof read.inFlight === 'number' &&
      Array.isArray(read.sending) &&
      Array.isArray(read.recording) &&
      Array.isArray(read.queued) &&
      typeof read.app === 'object' &&
      typeof read.process === 'object'
    return isWhole ? (read as LaneSnapshot) : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
