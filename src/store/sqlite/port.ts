import type { SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite'
import { appendAudit } from '../../features/audit/rows.ts'
import { atOnce, finishNow, type Methods, type Port, sqlBy, type Transaction, type Work } from '../sql/port.ts'
import type { Shape, Statement, Value, Values } from '../sql/statement.ts'
import { sealedWith } from '../vault.ts'
import type { Connection, MaybeSynchronous, Synchronous } from './connection.ts'
import { laneWakes } from './queueing.ts'
import { asTrouble, isUniqueViolation } from './trouble.ts'

/** A statement that answers rows as lists of values, and the names of their columns. */
interface Prepared {
  readonly query: StatementSync
  readonly columns: readonly string[]
}

/** SQLite as methods that are written once see it. No work on it ever yields. */
export function sqlitePort(connection: Connection): Port {
  const wakes = lazily(() => laneWakes(connection))
  const queries = new Map<Statement<never>, Prepared>()

  function prepared(statement: Statement<never>): Prepared {
    const found = queries.get(statement)
    if (found) return found
    const query = connection.statement(statement.in('sqlite').text)
    // A row that Node makes an object of is slow to copy: twenty rows of twelve columns took 78 µs in all, and take 31 µs.
    query.setReturnArrays(true)
    const made = { query, columns: query.columns().map(({ name }) => name) }
    queries.set(statement, made)
    return made
  }

  function run<Row>(statement: Statement<Row>, values: Values): Row[] {
    const bound: Record<string, SQLInputValue> = {}
    for (const name of statement.in('sqlite').parameters) {
      bound[name] = name === 'now' ? connection.now() : toStored(name, values[name])
    }
    const { query, columns } = prepared(statement as Statement<never>)
    const rows = query.all(bound) as unknown as SQLOutputValue[][]
    return rows.map((row) => shaped(named(row, columns), statement.shape))
  }

  const sql = sqlBy(
    (statement, values = {}) => atOnce(() => run(statement, values)),
    () => atOnce(() => connection.now()),
  )

  function transaction<T>(work: (sql: Transaction) => Work<T>): T {
    const afterwards: (() => void)[] = []
    const within: Transaction = {
      ...sql,
      newIdentity: (prefix) => atOnce(() => connection.newIdentity(prefix, connection.now())),
      changeKeySeries: () => connection.changeKeySeries(),
      wakeLane: (endpoint) =>
        atOnce(() => {
          const now = connection.now()
          const due = wakes().workDue(endpoint, now)
          if (due !== null && wakes().wake(endpoint, due) !== undefined)
            afterwards.push(() => connection.watcher?.lanes())
        }),
      queued: (endpoints, itsClass) =>
        atOnce(() => {
          const now = connection.now()
          const woken = endpoints.filter((endpoint) => wakes().wake(endpoint, now) !== undefined)
          afterwards.push(() => connection.watcher?.rows(endpoints, itsClass))
          if (woken.length > 0) afterwards.push(() => connection.watcher?.lanes())
        }),
      expunged: (messages) => atOnce(() => void afterwards.push(() => connection.watcher?.expunged?.(messages))),
      lanesFreed: () => atOnce(() => void afterwards.push(() => connection.watcher?.lanes())),
      workersChanged: () => atOnce(() => void afterwards.push(() => connection.watcher?.workers?.())),
      taskAdded: () => atOnce(() => void afterwards.push(() => connection.watcher?.tasks?.())),
      inboxFilled: () => atOnce(() => void afterwards.push(() => connection.watcher?.inbox?.())),
      settingsChanged: (endpoints) => atOnce(() => void afterwards.push(() => connection.watcher?.settings(endpoints))),
    }
    const answer = connection.transaction(() => finishNow(work(within)))
    for (const each of afterwards) each()
    return answer
  }

  function erase<T>(work: (sql: Transaction) => Work<T>): T {
    connection.db.exec('pragma secure_delete = on')
    let answer: T
    try {
      answer = transaction(work)
    } finally {
      connection.db.exec('pragma secure_delete = fast')
    }
    connection.wipeLog()
    return answer
  }

  const transactions = <T>(work: (sql: Transaction) => Work<T>) => atOnce(() => transaction(work))
  connection.appendAudit = (entry) => void finishNow(appendAudit(sql, connection.context, entry))
  return {
    ...sql,
    context: connection.context,
    hasOneWriter: true,
    transaction: transactions,
    erase: (work) => atOnce(() => erase(work)),
    // Too little is written through here for a commit that does not wait for the disk to be worth it.
    relaxed: { ...sql, transaction: transactions },
    // The workers of a file are in one process: this one or none.
    askOwners: (endpoints) =>
      atOnce(() => {
        connection.watcher?.asked?.(endpoints)
        return connection.watcher?.asked !== undefined
      }),
    isUidTaken: isUniqueViolation,
  }
}

/** The methods of the store from methods that are written once. Each runs to its end before anything else does. */
export function onSqlite<T>(methods: Methods<T>, before?: () => void): T {
  const synchronous: Record<string, unknown> = {}
  for (const [name, method] of Object.entries<(...args: never[]) => Work<unknown>>(methods)) {
    synchronous[name] = (...args: never[]) => finishNow(method(...args))
  }
  return promised<T>(synchronous as Synchronous<T>, before)
}

/**
 * The methods of the store from those of a part: each answers a promise, and rejects with `StoreTrouble` when the
 * database is busy, gone or full. `before` runs ahead of every call.
 */
export function promised<T>(part: Synchronous<T>, before?: () => void): T
export function promised<T>(part: MaybeSynchronous<T>, before?: () => void): T
export function promised<T>(part: Synchronous<T>, before: () => void = () => {}): T {
  const methods: Record<string, unknown> = {}
  for (const [name, method] of Object.entries<(...args: never[]) => unknown>(part)) {
    methods[name] = async (...args: never[]) => {
      try {
        before()
        return await method(...args)
      } catch (error) {
        throw asTrouble(error)
      }
    }
  }
  return methods as T
}

/** Makes a part at its first use: most ports never use it. */
function lazily<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}

function toStored(name: string, value: Value | undefined): SQLInputValue {
  if (value === undefined) throw new Error(`the statement's parameter ${name} has no value`)
  if (typeof value === 'boolean') return value ? 1 : 0
  if (value instanceof Uint8Array) return value
  if (value === null || typeof value !== 'object') return value
  if (!('sealed' in value)) return JSON.stringify(value)
  // Sealed text is no JSON.
  return typeof value.sealed === 'string' ? value.sealed : JSON.stringify(value.sealed)
}

function named(row: readonly unknown[], columns: readonly string[]): Record<string, unknown> {
  const made: Record<string, unknown> = {}
  for (let i = 0; i < columns.length; i++) made[columns[i] as string] = row[i]
  return made
}

/** Changes the row to the form that Postgres has it in. */
export function shaped<Row>(parsed: Record<string, unknown>, { json = [], flags = [], sealed = [] }: Shape<Row>): Row {
  for (const column of json) {
    const text = parsed[column]
    if (typeof text === 'string') parsed[column] = JSON.parse(text)
  }
  for (const column of flags) parsed[column] = parsed[column] === 1
  for (const column of sealed) {
    const text = parsed[column]
    if (typeof text === 'string') parsed[column] = unlessSealed(text)
  }
  return parsed as Row
}

/** The value of a sealed column that was never sealed. Text that is neither sealed nor JSON stays: it does not open. */
function unlessSealed(text: string): unknown {
  if (sealedWith(text) !== undefined) return text
  try {
    return JSON.parse(text)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return text
  }
}
