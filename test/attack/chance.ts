/** Random choices that one seed repeats. */
export interface Chance {
  /** A whole number from 0 to below the limit. */
  below(limit: number): number
  /** Whether the one case in `cases` has come. */
  once(cases: number): boolean
  of<T>(choices: readonly T[]): T
}

/** Choices from a seed (mulberry32). */
export function chanceOf(seed: number): Chance {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return { below, once: (cases) => below(cases) === 0, of: (choices) => choices[below(choices.length)] as never }
}
