import type { Terminal } from '../runtime/process.ts'

const barWidth = 24

/** How far long work is: how much is done, and a bar when it is known what share of the whole that is. */
export function progressLine(what: string, done: number, share?: number): string {
  const count = done.toLocaleString('en')
  if (share === undefined) return `${what} ${count}`
  const part = Math.min(1, Math.max(0, share))
  const full = Math.round(part * barWidth)
  const bar = `${'█'.repeat(full)}${'░'.repeat(barWidth - full)}`
  return `${what} ${bar} ${String(Math.floor(part * 100)).padStart(3)} %  ${count}`
}

/** Shows how far the work is while it runs, on a terminal only, and erases that at its end, however it ends. */
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
