/** How long one slice of the receiver's timeline is. */
export const sliceMs = 50

/**
 * Events per second over the steady part of a timeline of counts per slice: from the slice in which a fifth of all has
 * come to the one in which 95% has. The start (connections opening, code warming up) and the tail (the last lanes running
 * dry) are left out, for Sluice and for its reference alike. A pause in between counts.
 */
export function steadyRate(timeline: ArrayLike<number>): number {
  let total = 0
  for (let i = 0; i < timeline.length; i++) total += timeline[i] ?? 0
  let sum = 0
  let steady = 0
  let slices = 0
  for (let i = 0; i < timeline.length && sum < total * 0.95; i++) {
    if (sum >= total * 0.2) {
      steady += timeline[i] ?? 0
      slices++
    }
    sum += timeline[i] ?? 0
  }
  return slices === 0 ? 0 : (steady * 1000) / (slices * sliceMs)
}
