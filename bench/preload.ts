import { monitorEventLoopDelay } from 'node:perf_hooks'
import { DatabaseSync, StatementSync } from 'node:sqlite'
import pg from 'pg'

/**
 * Loaded into the server before its own code (`node --import`): counts the SQL statements it runs and tells the bench
 * when asked. A count costs about 0.1 µs, a delivery about 40 µs. Also ends the server when the bench is gone.
 */

/** SQL statements run, and processor time of all threads. */
export interface Spent {
  readonly statements: number
  readonly cpuUs: number
  /** The longest turn of the event loop since the last time that this was asked, to 5 ms. */
  readonly longestTurnMs: number
}

let statements = 0
const turns = monitorEventLoopDelay({ resolution: 5 })
turns.enable()

countCalls(StatementSync.prototype, ['run', 'get', 'all', 'iterate'])
countCalls(DatabaseSync.prototype, ['exec'])
countCalls(pg.Client.prototype, ['query'])

process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.({ statements, cpuUs: user + system, longestTurnMs: turns.max / 1e6 } satisfies Spent)
  turns.reset()
})
process.on('disconnect', () => process.exit(1))
process.channel?.unref() // The server must still be able to end by itself.

function countCalls(prototype: object, names: readonly string[]): void {
  for (const name of names) {
    const real = Reflect.get(prototype, name) as (...args: unknown[]) => unknown
    const counted = function (this: unknown, ...args: unknown[]): unknown {
      statements++
      return real.apply(this, args)
    }
    Reflect.set(prototype, name, counted)
  }
}
