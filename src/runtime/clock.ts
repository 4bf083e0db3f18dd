import type { Clock } from '../domain/clock.ts'

// Node fires a longer timer at once, with a warning; such a wait is made of several.
const longestTimerMs = 2 ** 31 - 1

/**
 * The machine's clock. Its timers keep the process alive, so that a worker with nothing under way still waits for its
 * next lane; whoever sets one cancels it when stopping.
 */
export const systemClock: Clock = {
  now: () => Date.now(),
  steady: () => performance.now(),
  after,
  soon: (fn) => void setImmediate(fn),
}

function after(ms: number, fn: () => void): () => void {
  let timer: NodeJS.Timeout
  const arm = (leftMs: number) => {
    timer =
      leftMs > longestTimerMs
        ? setTimeout(arm, longestTimerMs, leftMs - longestTimerMs)
        : setTimeout(fn, Math.max(0, leftMs))
  }
  arm(ms)
  return () => clearTimeout(timer)
}
