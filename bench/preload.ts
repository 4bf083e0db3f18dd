import { monitorEventLoopDelay } from 'node:perf_hooks'
import { DatabaseSync, StatementSync } from 'node:sqlite'
import pg from 'pg'

/**
 * Loaded into the server before its own code (`node --import`): counts the SQL statements it runs and tells the bench
 * when asked. A count costs about 0.1 µs, a delivery about 40 µs. Also ends the server when the bench is gone.
 */

/** SQL statements run, rows of waiting deliveries that they read, and processor time of all threads. */
export interface Spent {
  readonly statements: number
  readonly rowsRead: number
  readonly cpuUs: number
  /** The longest turn of the event loop since the last time that this was asked, to 5 ms. */
  readonly longestTurnMs: number
}

let statements = 0
const turns = monitorEventLoopDelay({ resolution: 5 })
turns.enable()
let rowsRead = 0

countCalls(StatementSync.prototype, ['run', 'get', 'all', 'iterate'])
countCalls(DatabaseSync.prototype, ['exec'])
countCalls(pg.Client.prototype, ['query'])
countRowsRead()

process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.({ statements, rowsRead, cpuUs: user + system, longestTurnMs: turns.max / 1e6 } satisfies Spent)
  turns.reset()
})
process.on('disconnect', () => process.exit(1))
process.channel?.unref() // The server must still be able to end by itself.

/** Counts what the statements bring that read the queues of Postgres. */
function countRowsRead(): void {
  const { query } = pg.Client.prototype
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const result = Reflect.apply(query, this, args) as Promise<pg.QueryResult> | pg.Query | undefined
    const { name } = args[0] as { name?: string }
    // Behind a pooler the statement is an object of its own, which calls back.
    if ((name === 'read-due' || name === 'read-named') && result instanceof Promise)
      void result.then(({ rowCount }) => (rowsRead += rowCount ?? 0), noRows)
    return result
  } as typeof query
}

function noRows(): void {}

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
