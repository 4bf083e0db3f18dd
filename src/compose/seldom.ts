import type { Clock, SteadyMs } from '../domain/clock.ts'

/** A sentence is said again when it was last said longer ago than this. */
const againMs = 60 * 60_000
/** Sentences kept; the oldest is forgotten first. */
const kept = 10_000

/** Says each sentence once an hour at most: a record that does not open is met again at every look at it. */
export function seldom(clock: Clock, say: (sentence: string) => void): (sentence: string) => void {
  const saidAt = new Map<string, SteadyMs>()
  return (sentence) => {
    const now = clock.steady()
    if (now - (saidAt.get(sentence) ?? Number.NEGATIVE_INFINITY) < againMs) return
    saidAt.delete(sentence)
    saidAt.set(sentence, now)
    if (saidAt.size > kept) saidAt.delete(saidAt.keys().next().value as string)
    say(sentence)
  }
}
