/** An instant of the world's clock, in whole milliseconds since 1970. It can jump: only a store may decide by it. */
export type EpochMs = number

/** An instant of a clock that never jumps or runs backwards, in milliseconds since an arbitrary start. */
export type SteadyMs = number

/**
 * All the time Sluice knows, handed in so that a test can run a million virtual seconds.
 *
 * Two clocks, because they answer different questions. What is written down (due times, leases, history) is in epoch
 * milliseconds and only a store reads or compares it. What an engine measures while it runs (tokens, holds, deadlines,
 * its own lease) is steady, so a clock that jumps an hour can neither flood an endpoint nor freeze a lane.
 */
export interface Clock {
  now(): EpochMs
  steady(): SteadyMs
  /** Calls `fn` once after `ms`; the answer cancels it. */
  after(ms: number, fn: () => void): () => void
  /** Calls `fn` once after the work of this turn, so that all that arrives in one turn is handled as one batch. */
  soon(fn: () => void): void
}

/** A number in [0, 1). */
export type Random = () => number

/** Reads an instant of RFC 3339; NaN when it is invalid. `Date.parse` alone would read February 31 as March 3. */
export function parseInstant(text: string): EpochMs {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)/.exec(text) ?? []
  const days = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  return Number(day) <= days ? Date.parse(text) : Number.NaN
}
