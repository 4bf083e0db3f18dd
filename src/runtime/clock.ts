import type { Clock } from '../domain/clock.ts'

// Node fires a longer timer at once, with a warning, so a longer wait uses several timers.
const longestTimerMs = 2 ** 31 - 1

/**
 * The machine's clock. Its timers keep the process alive, so that an idle worker still waits for its next lane. The code
 * that sets a timer cancels it when it stops.
 */
export const systemClock: Clock = {
  now: () => Date.now(),
  steady: () => performance.now(),
  after,
  soon: (fn) => void setImmediate(fn),
  // A tick that is asked for within a microtask comes after the last of them.
  afterPromises: (fn) => queueMicrotask(() => process.nextTick(fn)),
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
