import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'

/** Processor time in user and system mode, in microseconds; the ended children of a process count as `reaped`. */
interface Times {
  readonly parent: number
  readonly ownUs: number
  readonly reapedUs: number
}

let tickUs: number | undefined

/**
 * The processor time of a process and of all below it, in microseconds, children that ended included. Linux alone tells it
 * for other processes; elsewhere, or once the process is gone, it is not a number.
 */
export function processorUs(pid: number): number {
  const all = new Map<number, Times>()
  if (existsSync('/proc')) {
    for (const name of readdirSync('/proc')) {
      const times = /^\d+$/.test(name) ? timesOf(name) : undefined
      if (times !== undefined) all.set(Number(name), times)
    }
  }
  const sum = (root: number): number => {
    const times = all.get(root)
    if (times === undefined) return Number.NaN
    let total = times.ownUs + times.reapedUs
    for (const [child, { parent }] of all) if (parent === root) total += sum(child)
    return total
  }
  return sum(pid)
}

/** Undefined when the process ended meanwhile. */
function timesOf(pid: string): Times | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name of the program, in parentheses, may contain anything.
    const [, parent, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [user, system, reapedUser, reapedSystem] = rest.slice(9, 13).map(Number) as [number, number, number, number]
    tickUs ??= 1e6 / Number(execFileSync('getconf', ['CLK_TCK']))
    return {
      parent: Number(parent),
      ownUs: (user + system) * tickUs,
      reapedUs: (reapedUser + reapedSystem) * tickUs,
    }
  } catch {
    return undefined
  }
}
