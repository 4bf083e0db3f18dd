/** The limit of an endpoint: `burst` at once and `rate` per second after that. */
export interface Allowance {
  readonly rate: number
  readonly burst: number
}

/** When requests came, in order: not later than they were read, and not before an instant when none was there to read. */
export interface Arrivals {
  readonly readMs: ArrayLike<number>
  readonly notBeforeMs: ArrayLike<number>
}

/**
 * By how many arrivals the worst window broke the promise "at most burst + rate × w in any w seconds"; 0 when none did.
 * Where the instant of an arrival is uncertain, only what is an excess in any case counts.
 *
 * Only windows that start and end at arrivals need looking at, since shrinking any other to its outermost arrivals keeps
 * the count and lowers the allowance. For arrivals i ≤ j the excess is (j − i + 1) − burst − rate × (t_j − t_i). With
 * f(k) = k − rate × t_k that is f(j) − f(i) + 1 − burst: one pass that remembers the lowest f(i) looks at every window.
 */
export function worstExcess({ readMs, notBeforeMs }: Arrivals, { rate, burst }: Allowance): number {
  const origin = notBeforeMs[0] ?? 0 // Small numbers keep their digits.
  let lowest = Number.POSITIVE_INFINITY
  let worst = 0
  for (let k = 0; k < readMs.length; k++) {
    lowest = Math.min(lowest, k - (rate * ((notBeforeMs[k] as number) - origin)) / 1000)
    const f = k - (rate * ((readMs[k] as number) - origin)) / 1000
    worst = Math.max(worst, f - lowest + 1 - burst)
  }
  return worst
}

/**
 * The share of the rate that was used once the burst was spent, while there was always more to send. The run is measured
 * to its last arrival, so that whole arrivals make whole intervals; but when that lies more than two intervals before
 * the end, the endpoint had stalled and the silence counts.
 */
export function achievedShare(arrivalsMs: ArrayLike<number>, { rate, burst }: Allowance, endMs: number): number {
  const intervals = arrivalsMs.length - 1 - burst
  if (intervals < 1) return 0
  const last = arrivalsMs[arrivalsMs.length - 1] as number
  const until = endMs - last > 2000 / rate ? endMs : last
  return (intervals * 1000) / (rate * (until - (arrivalsMs[burst] as number)))
}
