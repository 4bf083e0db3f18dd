import type { Terminal } from '../runtime/process.ts'

const barWidth = 24

/** How far long work is: a bar when the whole is known, else the count alone. */
export function progressLine(what: string, done: number, total: number | undefined): string {
  const count = done.toLocaleString('en')
  if (total === undefined || total <= 0) return `${what} ${count}`
  const share = Math.min(1, done / total)
  const full = Math.round(share * barWidth)
  const bar = `${'█'.repeat(full)}${'░'.repeat(barWidth - full)}`
  return `${what} ${bar} ${String(Math.floor(share * 100)).padStart(3)} %  ${count} of ${total.toLocaleString('en')}`
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
