import type { EpochMs } from '../../domain/clock.ts'

/**
 * The counters of the history. `accepted` counts messages; `failed` counts attempts; the ends of deliveries are `delivered`,
 * `dead`, `coalesced`, `dropped` and `expired`; `arrived` counts deliveries that began to wait. `waiting` sums how many waited at
 * each of `looks`, so that it adds up over processes and hours, too. The others count attempts by the class of their status.
 */
export const counters = [
  'accepted',
  'delivered',
  'failed',
  'dead',
  'coalesced',
  'dropped',
  'expired',
  'status2xx',
  'status3xx',
  'status4xx',
  'status5xx',
  'statusNone',
  'arrived',
  'waiting',
  'looks',
] as const
/** The counters that are shown as they are. Waiting deliveries are shown as their mean over the looks. */
export const shownCounters = counters.filter((name) => name !== 'waiting' && name !== 'looks')
export type ShownCounter = Exclude<Counter, 'waiting' | 'looks'>
export type Counter = (typeof counters)[number]

const places = Object.fromEntries(counters.map((name, place) => [name, place])) as Record<Counter, number>

/** Sums as they are stored: counters that are 0 and sketches that are empty are left out. */
export type StoredSums = Readonly<Partial<Record<Counter, number>>> & {
  readonly wait?: readonly number[]
  readonly heldUp?: readonly number[]
  readonly latency?: readonly number[]
  readonly byHour?: true
}

/** The counts and durations of a server, an application or an endpoint over some time. */
export class Sums {
  readonly #counts = new Float64Array(counters.length)
  /** From the instant at which a delivery was first due to the start of its first attempt. */
  readonly wait = new Sketch()
  /** The part of it in which the lane could send and waited for a slot, where that is long enough to matter. */
  readonly heldUp = new Sketch()
  /** The duration of attempts. */
  readonly latency = new Sketch()
  /** Some of these counts were kept by the hour alone: the minutes of the same hour do not add up to them. */
  byHour = false

  static read(stored: StoredSums): Sums {
    return new Sums().addStored(stored)
  }

  addStored(stored: StoredSums): this {
    for (const name of counters) this.add(name, stored[name] ?? 0)
    if (stored.wait) this.wait.addWritten(stored.wait)
    if (stored.heldUp) this.heldUp.addWritten(stored.heldUp)
    if (stored.latency) this.latency.addWritten(stored.latency)
    this.byHour ||= stored.byHour === true
    return this
  }

  get(name: Counter): number {
    return this.#counts[places[name]] as number
  }

  add(name: Counter, count: number): void {
    const place = places[name]
    this.#counts[place] = (this.#counts[place] as number) + count
  }

  merge(other: Sums): this {
    for (let place = 0; place < counters.length; place++) {
      this.#counts[place] = (this.#counts[place] as number) + (other.#counts[place] as number)
    }
    this.wait.merge(other.wait)
    this.heldUp.merge(other.heldUp)
    this.latency.merge(other.latency)
    this.byHour ||= other.byHour
    return this
  }

  /** How many deliveries waited in the mean of all looks; undefined without a look. */
  get meanWaiting(): number | undefined {
    const looks = this.get('looks')
    return looks === 0 ? undefined : this.get('waiting') / looks
  }

  /** A quantile of the delay of first attempts that is ours: nearly all have none, and only the others are kept. */
  delayQuantile(share: number): number | undefined {
    const { wait, heldUp } = this
    const all = Math.max(wait.count, heldUp.count)
    if (all === 0) return undefined
    const rank = Math.ceil(share * all) - (all - heldUp.count)
    return rank <= 0 ? 0 : heldUp.quantile(rank / heldUp.count)
  }

  toJSON(): StoredSums {
    const stored: Record<string, unknown> = {}
    for (let place = 0; place < counters.length; place++) {
      const count = this.#counts[place] as number
      if (count > 0) stored[counters[place] as Counter] = count
    }
    if (this.wait.count > 0) stored.wait = this.wait.toJSON()
    if (this.heldUp.count > 0) stored.heldUp = this.heldUp.toJSON()
    if (this.latency.count > 0) stored.latency = this.latency.toJSON()
    if (this.byHour) stored.byHour = true
    return stored
  }
}

/** A delay below this is none. */
export const leastHeldUpMs = 100

/** The counter of an attempt's status; 0 stands for no answer. */
export function statusCounter(status: number): Counter {
  if (status < 200 || status >= 600) return 'statusNone'
  return status < 300 ? 'status2xx' : status < 400 ? 'status3xx' : status < 500 ? 'status4xx' : 'status5xx'
}

export const minuteMs = 60_000
export const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** The lengths of time that sums are kept for, in milliseconds. */
export type SumSpan = typeof minuteMs | typeof hourMs

/** How long minutes are kept. Hours are kept for as long as the setting says. */
export const minutesKeptMs = 2 * dayMs

/** A process writes no row that ended longer ago than this; counts that it could not write until then are lost. */
export const writtenForMs = hourMs / 2

/** Rows are merged once they are this old by their start: an hour and `writtenForMs`, and as much for clocks that differ. */
export const foldAfterMs = hourMs + 2 * writtenForMs

/** The scope of the whole server. The other scopes are the keys of applications and endpoints, which are never equal. */
export const serverScope = -1

/** The points of a series at most. */
export const pointsLimit = 360

// Each is a multiple of a minute or an hour, so that sums of either length fall into one step.
const stepsMs = [1, 5, 10, 15, 30, 60, 180, 360, 720, 1440, 2880].map((minutes) => minutes * minuteMs)

/** The longest time that a series covers. */
export const longestSeriesMs = pointsLimit * (stepsMs.at(-1) as number)

/** The times of a series: `points` steps from `since` on. */
export interface Steps {
  readonly since: EpochMs
  readonly stepMs: number
  readonly points: number
  /** The length of the sums that it is made from. */
  readonly span: SumSpan
}

/**
 * The steps of a series from `since` to `until`: the shortest that make no more than `pointsLimit` points and are no shorter
 * than `leastMs`. Time that is older than the minutes kept is shown by hours.
 */
export function stepsBetween(since: EpochMs, until: EpochMs, now: EpochMs, leastMs = 0): Steps {
  const isOld = since < now - minutesKeptMs
  return choose(isOld ? Math.max(leastMs, hourMs) : leastMs, (stepMs) => {
    const start = Math.floor(since / stepMs) * stepMs
    return { since: start, points: Math.max(1, Math.ceil((until - start) / stepMs)) }
  })
}

/** The steps of the last `lengthMs`, the last of which contains `now`; their number is the same at any time. */
export function latestSteps(lengthMs: number, now: EpochMs, leastMs = 0): Steps {
  return choose(lengthMs > minutesKeptMs ? Math.max(leastMs, hourMs) : leastMs, (stepMs) => {
    const points = Math.max(1, Math.ceil(lengthMs / stepMs))
    return { since: (Math.floor(now / stepMs) + 1 - points) * stepMs, points }
  })
}

function choose(leastMs: number, at: (stepMs: number) => Pick<Steps, 'since' | 'points'>): Steps {
  for (const stepMs of stepsMs) {
    const steps = at(stepMs)
    if (stepMs < leastMs || steps.points > pointsLimit) continue
    return { ...steps, stepMs, span: stepMs < hourMs ? minuteMs : hourMs }
  }
  throw new Error(`the series takes more than ${pointsLimit} points`)
}

/**
 * A quantile is at most this much off, as a share of the true value, for values between `shortestMs` and `longestMs`. Smaller
 * values count as `shortestMs` and larger ones as `longestMs`.
 */
export const relativeError = 0.05

/** The width of a bucket, as a factor. Its middle is no further than `relativeError` from either edge. */
const factor = (1 + relativeError) / (1 - relativeError)
const buckets = 256
const perLog = 1 / Math.log(factor)

/** A tenth of a millisecond. */
export const shortestMs = 0.1
/** About 140 days. */
export const longestMs = shortestMs * factor ** (buckets - 1)

/** Buckets are made this many at a time: the durations of one minute mostly lie close together. */
const block = 16

/** The bucket of a duration. A duration that is added to several sketches needs its logarithm once. */
export function bucketOf(ms: number): number {
  if (!(ms > shortestMs)) return 0
  return Math.min(buckets - 1, Math.ceil(Math.log(ms / shortestMs) * perLog))
}

/** The middle of a bucket, between its edges `factor ** (bucket - 1)` and `factor ** bucket` of `shortestMs`. */
function middleOf(bucket: number): number {
  return bucket === 0 ? shortestMs : (shortestMs * 2 * factor ** bucket) / (factor + 1)
}

/**
 * Counts of durations in logarithmic buckets. Sketches merge by adding up, in any order and grouping, so that minutes make
 * hours and workers make a fleet without a loss of accuracy.
 */
export class Sketch {
  /** The bucket of the first count; a multiple of `block`. */
  #first = 0
  #counts = new Float64Array(0)

  /** Reads a sketch as `toJSON` wrote it. */
  static read(written: readonly number[]): Sketch {
    const sketch = new Sketch()
    sketch.addWritten(written)
    return sketch
  }

  get count(): number {
    const counts = this.#counts
    let count = 0
    for (let place = 0; place < counts.length; place++) count += counts[place] as number
    return count
  }

  add(ms: number): void {
    this.addAt(bucketOf(ms), 1)
  }

  /** Adds durations by their bucket. */
  addAt(bucket: number, count: number): void {
    if (bucket < this.#first || bucket >= this.#first + this.#counts.length) this.#reach(bucket)
    const place = bucket - this.#first
    this.#counts[place] = (this.#counts[place] as number) + count
  }

  /** Adds a sketch as `toJSON` wrote it. */
  addWritten(written: readonly number[]): void {
    if (written.length < 2) return
    let bucket = 0
    for (let i = 0; i + 1 < written.length; i += 2) bucket += written[i] as number
    // The last bucket and the first: the counts are made once, however many buckets lie between.
    this.addAt(bucket, 0)
    bucket = 0
    for (let i = 0; i + 1 < written.length; i += 2) {
      bucket += written[i] as number
      this.addAt(bucket, written[i + 1] as number)
    }
  }

  merge(other: Sketch): void {
    const counts = other.#counts
    for (let place = counts.length - 1; place >= 0; place--) {
      const count = counts[place] as number
      if (count > 0) this.addAt(other.#first + place, count)
    }
  }

  /**
   * The duration that this share of all durations does not exceed, such as 0.95; undefined without any duration. It is the
   * duration at rank `share × count`, rounded up, with the error stated above.
   */
  quantile(share: number): number | undefined {
    const rank = Math.max(1, Math.ceil(share * this.count))
    let seen = 0
    const counts = this.#counts
    for (let place = 0; place < counts.length; place++) {
      seen += counts[place] as number
      if (seen >= rank) return middleOf(this.#first + place)
    }
    return undefined
  }

  /** Pairs of a bucket, as the distance from the one before, and its count; empty buckets are left out. */
  toJSON(): number[] {
    const written: number[] = []
    let before = 0
    for (let place = 0; place < this.#counts.length; place++) {
      const count = this.#counts[place] as number
      if (count === 0) continue
      written.push(this.#first + place - before, count)
      before = this.#first + place
    }
    return written
  }

  #reach(bucket: number): void {
    if (!Number.isInteger(bucket) || bucket < 0 || bucket >= buckets) throw new Error(`there is no bucket ${bucket}`)
    const isEmpty = this.#counts.length === 0
    const start = bucket - (bucket % block)
    const first = isEmpty ? start : Math.min(this.#first, start)
    const end = isEmpty ? start + block : Math.max(this.#first + this.#counts.length, start + block)
    const counts = new Float64Array(end - first)
    if (!isEmpty) counts.set(this.#counts, this.#first - first)
    this.#first = first
    this.#counts = counts
  }
}
