import type { CircuitState } from './saved-health.ts'

/**
 * A lane as its owner sees it at one moment: what no table tells. All times are durations from that moment, so that
 * whoever reads it needs only to know how long ago it was.
 */
export interface LaneSnapshot {
  readonly worker: number
  /** Tells one answer of a worker from the next. */
  readonly n: number
  readonly inFlight: number
  readonly concurrency: number
  /** What is being sent, the longest first, up to `namedLimit`. */
  readonly sending: readonly { readonly message: number; readonly forMs: number }[]
  /** What was sent and is not recorded yet, up to `namedLimit`. */
  readonly recording: readonly number[]
  /** Read and not begun, per class. */
  readonly queued: readonly [fresh: number, timed: number, replay: number]
  /** When the bucket gives the next token: 0 for now, null when there is no limit. */
  readonly tokenMs: number | null
  /** Requests a second that the bucket lets through, if there is one. */
  readonly rate: number | null
  /** In a lane that keeps an order, when that lets something start; null when it is kept back until something ends. */
  readonly order: { readonly waitMs: number | null } | null
  /** How long a Retry-After still holds the lane. */
  readonly holdMs: number
  readonly circuit?: CircuitState
  /** How long an open circuit still lets nothing through: 0 for no more, null for until somebody closes it. */
  readonly silentMs?: number | null
  /** When the rate that climbs back lets the next one go: 0 for now. */
  readonly paceMs?: number
  /** When the application's own rate lets the next one go: 0 for now. */
  readonly appMs?: number
  /** When the limit of failed attempts lets the next one go: 0 for now. */
  readonly failuresMs?: number
  /** Which slots the lane waits for, though it may send. */
  readonly crowded: Crowded | null
  readonly app: Slots
  readonly process: Slots
  /** Why the worker starts nothing at all just now. */
  readonly standstill: Standstill | null
  /** Whether it is about to be handed to another worker. */
  readonly leaving: boolean
  /** How long ago something last moved. */
  readonly activeAgoMs: number
  /** Attempts that ended, a second, of late; null when it has not been watched for long enough. */
  readonly pace: number | null
}

/**
 * `share`: it is left for others; `application`: its application has all it may have; `process`: none is free; `slow` and
 * `untried`: the rest is kept for endpoints that answer quickly.
 */
export type Crowded = 'share' | 'application' | 'process' | 'slow' | 'untried'

/** `lease`: it is not sure that it still owns anything; `store`: the store is in trouble; `recording`: it falls behind. */
export type Standstill = 'lease' | 'store' | 'recording'

export interface Slots {
  readonly inFlight: number
  readonly limit: number
}

/** How many messages a snapshot names: it is for people, and a row of a table. */
export const namedLimit = 64

/** As it is stored. Numbers are rounded: a tenth of a millisecond is nobody's business. */
export function writeSnapshot(snapshot: LaneSnapshot): string {
  const rounded = JSON.stringify(snapshot, (_, value) =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toFixed(3)) : value,
  )
  return rounded
}

/** What was stored; undefined when it is nothing this Sluice can read, such as what a newer one wrote. */
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
