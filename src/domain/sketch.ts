/**
 * A quantile is at most this much off, as a share of the true value, for values between `leastMs` and `mostMs`. Smaller
 * values count as `leastMs` and larger ones as `mostMs`.
 */
export const relativeError = 0.05

/** The width of a bucket, as a factor. Its middle is no further than `relativeError` from either edge. */
const factor = (1 + relativeError) / (1 - relativeError)
const buckets = 256
const perLog = 1 / Math.log(factor)

/** A tenth of a millisecond. */
export const leastMs = 0.1
/** About 140 days. */
export const mostMs = leastMs * factor ** (buckets - 1)

/** Buckets are made this many at a time: the durations of one minute mostly lie close together. */
const block = 16

/** The bucket of a duration. A duration that is added to several sketches needs its logarithm once. */
export function bucketOf(ms: number): number {
  if (!(ms > leastMs)) return 0
  return Math.min(buckets - 1, Math.ceil(Math.log(ms / leastMs) * perLog))
}

/** The middle of a bucket, between its edges `factor ** (bucket - 1)` and `factor ** bucket` of `leastMs`. */
function middleOf(bucket: number): number {
  return bucket === 0 ? leastMs : (leastMs * 2 * factor ** bucket) / (factor + 1)
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
    for (const [place, count] of this.#counts.entries()) {
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
