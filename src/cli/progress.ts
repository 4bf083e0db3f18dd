import type { Terminal } from '../runtime/process.ts'

const barWidth = 24

/** Progress of long work: the number done, and a bar when the share of the whole is known. */
export function progressLine(what: string, done: number, share?: number): string {
  const count = done.toLocaleString('en')
  if (share === undefined) return `${what} ${count}`
  const part = Math.min(1, Math.max(0, share))
  const full = Math.round(part * barWidth)
  const bar = `${'█'.repeat(full)}${'░'.repeat(barWidth - full)}`
  return `${what} ${bar} ${String(Math.floor(part * 100)).padStart(3)} %  ${count}`
}

/** Shows progress while the work runs, on a terminal only, and erases it when the work ends or fails. */
export async function withProgress<T>(
  terminal: Terminal,
  work: (show: (line: string) => void) => Promise<T>,
): Promise<T> {
  try {
    return await work((line) => terminal.progress(line))
  } finally {
    terminal.progress('')
  }
}
