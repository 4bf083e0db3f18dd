/** An instant of the world's clock, in whole milliseconds since 1970. It can jump: only a store may decide by it. */
export type EpochMs = number

/** An instant of a clock that never jumps or runs backwards, in milliseconds since an arbitrary start. */
export type SteadyMs = number

/**
 * All the time Sluice knows, handed in so that a test can run a million virtual seconds.
 *
 * Two clocks, because they answer different questions. Stored times (due times, leases, history) are in epoch
 * milliseconds and only a store reads or compares them. Times that an engine measures while it runs (tokens, holds, deadlines,
 * its own lease) are steady, so a clock that jumps an hour can neither flood an endpoint nor freeze a lane.
 */
export interface Clock {
  now(): EpochMs
  steady(): SteadyMs
  /** Calls `fn` once after `ms`; the answer cancels it. */
  after(ms: number, fn: () => void): () => void
  /** Calls `fn` once after the work of this turn, so that all that arrives in one turn is handled as one batch. */
  soon(fn: () => void): void
  /** Calls `fn` once in this turn, after all that follows from promises that are settled by then. */
  afterPromises(fn: () => void): void
}

/** A number in [0, 1). */
export type Random = () => number

/**
 * Reads an instant in the forms of RFC 3339 and those that Svix's server takes beside them: a space instead of `T`, `UTC`
 * or an offset without a colon, any number of decimals. A plus that a query decoded to a space counts as a plus. Without
 * seconds, too. NaN for any other text, and for days such as February 31, which `Date.parse` would read as March 3.
 */
export function parseInstant(text: string): EpochMs {
  const parts = instantForm.exec(text)
  if (parts === null) return Number.NaN
  const [, year = '', month = '', day = '', minutes = '', seconds = '00', decimals = '', zone = ''] = parts
  const days = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (Number(day) > days) return Number.NaN
  const offset = /^(z|utc)$/i.test(zone) ? 'Z' : zone.replace(/^ /, '+').replace(/(\d\d):?(\d\d)$/, '$1:$2')
  return Date.parse(`${year}-${month}-${day}T${minutes}:${seconds}.${decimals.slice(0, 3).padEnd(3, '0')}${offset}`)
}

/** The forms of an instant, as the source of a regular expression. */
export const instantPattern =
  '^(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ](\\d\\d:\\d\\d)(?::(\\d\\d)(?:\\.(\\d+))?)? ?([Zz]|UTC|[+ -]\\d\\d:?\\d\\d)$'
const instantForm = new RegExp(instantPattern)
