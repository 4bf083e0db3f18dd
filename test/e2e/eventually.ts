/** A limit for one step, on the slowest and busiest machine. Tests measure nothing by it, and suites have no limit. */
export const deadlineMs = 180_000

const firstLookMs = 10
const lookEveryMs = 60

/** Asks until the answer is neither undefined nor false; rejects, saying what never came, when that takes too long. */
export async function eventually<T>(
  what: string,
  ask: () => T | Promise<T>,
  withinMs = deadlineMs,
): Promise<Exclude<T, undefined | false>> {
  const giveUpAt = performance.now() + withinMs
  for (let waitMs = firstLookMs; ; waitMs = Math.min(lookEveryMs, waitMs * 1.5)) {
    const answer = await ask()
    if (answer !== undefined && answer !== false) return answer as Exclude<T, undefined | false>
    if (performance.now() > giveUpAt) throw new Error(`${what}: not within ${withinMs / 1000} s`)
    await new Promise((resolve) => setTimeout(resolve, waitMs))
  }
}
