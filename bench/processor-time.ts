import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'

/** The parent of a process, and a count of its own; what its ended children had is added to it as `reaped`. */
interface Counted {
  readonly parent: number
  readonly own: number
  readonly reaped: number
}

let tickUs: number | undefined

/**
 * The processor time of a process and of all below it, in microseconds, children that ended included. Linux alone tells it
 * for other processes; elsewhere, or once the process is gone, it is not a number.
 */
export function processorUs(pid: number): number {
  return sumOfTree(pid, (fields) => {
    const [user, system, reapedUser, reapedSystem] = fields.slice(10, 14).map(Number) as [
      number,
      number,
      number,
      number,
    ]
    tickUs ??= 1e6 / Number(execFileSync('getconf', ['CLK_TCK']))
    return { own: (user + system) * tickUs, reaped: (reapedUser + reapedSystem) * tickUs }
  })
}

/** The bytes that a process and all below it wrote to the disk, children that ended included; otherwise as `processorUs`. */
export function bytesWrittenBy(pid: number): number {
  return sumOfTree(pid, (_, process) => {
    const written = /^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${process}/io`, 'latin1'))?.[1]
    // Linux adds what its ended children wrote to a process's own count.
    return { own: Number(written), reaped: 0 }
  })
}

/** `count` is given the fields of /proc/PID/stat from the process's state on. */
function sumOfTree(
  pid: number,
  count: (fields: readonly string[], pid: string) => Pick<Counted, 'own' | 'reaped'>,
): number {
  const all = new Map<number, Counted>()
  if (existsSync('/proc')) {
    for (const name of readdirSync('/proc')) {
      const counted = /^\d+$/.test(name) ? countedOf(name, count) : undefined
      if (counted !== undefined) all.set(Number(name), counted)
    }
  }
  const sum = (root: number): number => {
    const counted = all.get(root)
    if (counted === undefined) return Number.NaN
    let total = counted.own + counted.reaped
    for (const [child, { parent }] of all) if (parent === root) total += sum(child)
    return total
  }
  return sum(pid)
}

/** Undefined when the process ended meanwhile, or belongs to another user. */
function countedOf(pid: string, count: Parameters<typeof sumOfTree>[1]): Counted | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name of the program, in parentheses, may contain anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return { parent: Number(fields[1]), ...count(fields, pid) }
  } catch {
    return undefined
  }
}
