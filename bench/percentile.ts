/** The smallest value that at least `share` of all values do not exceed (nearest rank). NaN when there are none. */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  if (sorted.length === 0) return Number.NaN
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] as number
}

/** The middle value; of an even number, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort()
  const half = sorted.length >> 1
  if (sorted.length % 2 === 1) return sorted[half] as number
  return ((sorted[half - 1] as number) + (sorted[half] as number)) / 2
}

/** The three percentiles of every latency. */
export function latencyFigures(values: ArrayLike<number>): { p50Ms: number; p95Ms: number; p99Ms: number } {
  const sorted = Float64Array.from(values).sort()
  return { p50Ms: percentile(sorted, 0.5), p95Ms: percentile(sorted, 0.95), p99Ms: percentile(sorted, 0.99) }
}
