import { readdirSync, readFileSync } from 'node:fs'

/** Processor time of the threads of a process so far, in microseconds. */
export interface ThreadTime {
  /** Processor time of the main thread, which is the one that runs JavaScript. */
  readonly mainUs: number
  /** Processor time of all threads that are alive: of Node's, none ends while it serves. */
  readonly allUs: number
  /** How long the main thread was ready to run and waited for a core. */
  readonly mainWaitUs: number
}

/**
 * The scheduler's own count for each thread, to the nanosecond. Unlike a rate it hardly minds a busy machine. Linux alone has
 * it; elsewhere, or once the process is gone, it is not a number.
 */
export function threadTime(pid: number): ThreadTime {
  try {
    const [mainUs, mainWaitUs] = schedule(`/proc/${pid}/schedstat`)
    let allUs = 0
    for (const thread of readdirSync(`/proc/${pid}/task`)) allUs += aliveUs(pid, thread)
    return { mainUs, allUs, mainWaitUs }
  } catch {
    return { mainUs: Number.NaN, allUs: Number.NaN, mainWaitUs: Number.NaN }
  }
}

/** Zero for a thread that ended meanwhile. */
function aliveUs(pid: number, thread: string): number {
  try {
    return schedule(`/proc/${pid}/task/${thread}/schedstat`)[0]
  } catch {
    return 0
  }
}

/** Time on a core and time of waiting for one. */
function schedule(file: string): [number, number] {
  const [ranNs, waitedNs] = readFileSync(file, 'latin1').split(' ')
  return [Number(ranNs) / 1000, Number(waitedNs) / 1000]
}
