import type { Arrival } from './receiver.ts'

/**
 * By how many requests the worst window broke "at most burst + rate × w in any w seconds"; 0 when none did. A request
 * counts into a window only if it came inside it for certain: after `notBefore` of the window's first and no later than
 * the last was read. So a receiver that reads late widens the window and never accuses a sender wrongly.
 */
export function worstExcess(
  arrivals: readonly Pick<Arrival, 'notBefore' | 'at'>[],
  { rate, burst }: { rate: number; burst: number },
): number {
  const byStart = arrivals.toSorted((a, b) => a.notBefore - b.notBefore)
  let worst = 0
  for (const [i, first] of byStart.entries()) {
    const ends = byStart.slice(i).map(({ at }) => at)
    for (const [j, end] of ends.sort((a, b) => a - b).entries()) {
      worst = Math.max(worst, j + 1 - burst - (rate * (end - first.notBefore)) / 1000)
    }
  }
  return worst
}

/** The most requests that were open at one instant. */
export function mostOpen(arrivals: readonly Pick<Arrival, 'at' | 'endedAt'>[]): number {
  const changes = arrivals.flatMap(({ at, endedAt = Number.POSITIVE_INFINITY }) => [
    { at, by: 1 },
    { at: endedAt, by: -1 },
  ])
  let open = 0
  let most = 0
  for (const { by } of changes.sort((a, b) => a.at - b.at || a.by - b.by)) {
    open += by
    most = Math.max(most, open)
  }
  return most
}
