/** How long one slice of the receiver's timeline is. */
export const sliceMs = 50

/** A stretch of time, by the machine's clock. */
export interface Span {
  readonly fromAt: number
  readonly toAt: number
}

/** The steady part of a timeline, and what came in it. */
interface Steady {
  readonly firstSlice: number
  readonly slices: number
  readonly count: number
}

/**
 * The steady part of a timeline of counts per slice: from the slice in which a fifth of all has come to the one in which 95%
 * has. The start (connections opening, code warming up) and the tail (the last lanes running dry) are left out, for Sluice
 * and for its reference alike. A pause in between counts.
 */
function steadyPart(timeline: ArrayLike<number>): Steady {
  let total = 0
  for (let i = 0; i < timeline.length; i++) total += timeline[i] ?? 0
  let sum = 0
  let count = 0
  let firstSlice = 0
  let slices = 0
  for (let i = 0; i < timeline.length && sum < total * 0.95; i++) {
    if (sum >= total * 0.2) {
      if (slices === 0) firstSlice = i
      count += timeline[i] ?? 0
      slices++
    }
    sum += timeline[i] ?? 0
  }
  return { firstSlice, slices, count }
}

/** Events per second over the steady part of a timeline of counts per slice. */
export function steadyRate(timeline: ArrayLike<number>): number {
  const { slices, count } = steadyPart(timeline)
  return slices === 0 ? 0 : (count * 1000) / (slices * sliceMs)
}

/** When the steady part of a timeline was that began at an instant, and how much came in it. */
export function steadySpan(timeline: ArrayLike<number>, startedAt: number): Span & { readonly count: number } {
  const { firstSlice, slices, count } = steadyPart(timeline)
  const fromAt = startedAt + firstSlice * sliceMs
  return { fromAt, toAt: fromAt + slices * sliceMs, count }
}
