import type { Connection } from './connection.ts'

/** How often to look whether another process wrote to the file. One look costs about 2 µs. */
const pollMs = 20

/**
 * Signals the connection's watcher when another process has written to the file, until the answer is called. Which rows
 * it wrote is not known, so the signals name none.
 */
export function watchForeignCommits(connection: Connection): () => void {
  const { clock, log } = connection.context
  // The number changes with every commit of another connection and never with one's own.
  const version = connection.prepare<{ data_version: number }>('pragma data_version')
  let seen = version.get()?.data_version
  let cancel = clock.after(pollMs, look)

  function look(): void {
    cancel = clock.after(pollMs, look)
    let found: number | undefined
    try {
      found = version.get()?.data_version
    } catch (error) {
      log?.(`could not look for what other processes wrote: ${error instanceof Error ? error.message : error}`)
      return
    }
    if (found === seen) return
    seen = found
    connection.watcher?.expunged?.()
    connection.watcher?.rows()
    connection.watcher?.lanes()
    connection.watcher?.settings()
  }

  return () => cancel()
}
