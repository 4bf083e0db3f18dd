import { machineNow } from './machine-clock.ts'
import { type Span, steadySpan } from './steady-rate.ts'

/** How often the meter is read: a drain takes seconds, and reading all processes of Postgres takes milliseconds. */
const everyMs = 200

/** Counters that only grow, by name. */
export type Counters = Readonly<Record<string, number>>

interface Reading<C> {
  readonly at: number
  readonly counters: C
}

/** Reads growing counters now and then, so that afterwards their growth between any two instants is known. */
export class Meter<C extends Counters> implements Disposable {
  readonly #read: () => C
  readonly #readings: Reading<C>[] = []
  readonly #timer: NodeJS.Timeout

  constructor(read: () => C) {
    this.#read = read
    this.#timer = setInterval(() => this.#note(), everyMs)
    this.#note()
  }

  /** Reads for the last time. */
  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#note()
  }

  /** The growth of each counter within the span. */
  within(span: Span): C {
    return growth(this.#readings, span)
  }

  #note(): void {
    this.#readings.push({ at: machineNow(), counters: this.#read() })
  }
}

/** The growth of each counter for one event of the steady part of a timeline. */
export function perEvent<C extends Counters>(meter: Meter<C>, timeline: ArrayLike<number>, startedAt: number): C {
  const span = steadySpan(timeline, startedAt)
  const spent = Object.entries(meter.within(span)).map(([name, growth]) => [name, growth / span.count])
  return Object.fromEntries(spent) as C
}

/** The growth of each counter between two instants, on straight lines between the readings. */
export function growth<C extends Counters>(readings: readonly Reading<C>[], { fromAt, toAt }: Span): C {
  const names = Object.keys(readings[0]?.counters ?? {})
  return Object.fromEntries(names.map((name) => [name, at(readings, name, toAt) - at(readings, name, fromAt)])) as C
}

function at(readings: readonly Reading<Counters>[], name: string, instant: number): number {
  const next = readings.findIndex((reading) => reading.at >= instant)
  const after = readings[next]
  const before = readings[Math.max(0, next - 1)]
  // Beyond the readings, the nearest one is all that is known.
  if (after === undefined) return readings.at(-1)?.counters[name] ?? Number.NaN
  if (before === undefined || before === after) return after.counters[name] ?? Number.NaN
  const share = (instant - before.at) / (after.at - before.at)
  const [low = Number.NaN, high = Number.NaN] = [before.counters[name], after.counters[name]]
  return low + share * (high - low)
}
