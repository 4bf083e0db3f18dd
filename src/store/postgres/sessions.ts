import pg from 'pg'
import { register } from '../sql/statement.ts'
import { connectionTimeoutMillis, statementTimeoutMs } from './client.ts'
import { type Naming, namingOf, runWith, settingLocally } from './pooled.ts'
import type { Servers } from './servers.ts'
import { type Standing, standingColumns } from './succession.ts'
import { durabilityProof, explain, IsolationError, NotDurableError, spoilsConnection } from './trouble.ts'

/** A statement the server prepares once per connection, under its name. */
export interface PostgresStatement {
  readonly name: string
  readonly text: string
}

/** Makes and registers the statement of a template, so that tests of query plans see it. */
export function postgresStatement(name: string) {
  return (strings: TemplateStringsArray, ...parts: (string | number)[]): PostgresStatement => {
    const text = String.raw({ raw: strings }, ...parts)
    register(name, 'postgres', () => text)
    return { name, text }
  }
}

/**
 * A durable write that changes no table: a record of the server's log. The update of no row fails where the database is
 * read-only; the record fails on a standby and on a full disk.
 */
export const writeNothing = postgresStatement('write-nothing')`
  with refused as (update leader set epoch = epoch where false returning epoch)
  select pg_logical_emit_message(true, 'sluice', 'health') from (select count(*) from refused) as counted`

/** The values of a statement, or a function that makes them once there is a connection. */
export type Values = readonly unknown[] | (() => readonly unknown[])

/** The values to send now. */
export function made(values: Values = []): unknown[] {
  return (typeof values === 'function' ? values() : values) as unknown[]
}

/** Runs one statement and gives its rows. */
export type Run = <Row>(statement: PostgresStatement, values?: Values) => Promise<Row[]>

/** Connections of one kind. Whatever fails is explained (trouble.ts) before a caller sees it. */
export interface Sessions {
  /** In its own transaction. */
  readonly run: Run
  /** Several statements in one transaction, each seeing what was committed before it began (READ COMMITTED). */
  transaction<T>(work: (run: Run) => Promise<T>): Promise<T>
  /**
   * The last work of every transaction before it commits, if it is set and there is any. The function that it answers is called
   * after the commit.
   */
  beforeCommit?: (run: Run) => Promise<() => void> | undefined
  end(): Promise<void>
}

interface SessionOptions {
  readonly servers: Servers
  /** Whether a commit waits until it is on disk. */
  readonly durable: boolean
  /** By default four, and three behind a pooler, which has few for all. */
  readonly connections?: number | undefined
  /** Called for each new connection that leads to a pooler. */
  readonly onPooler?: () => void
  readonly onTrouble: (sentence: string) => void
}

const directConnections = 4
/** With both kinds, three processes have two to spare in a pool of twenty, also when each connection is kept for one client. */
const pooledConnections = 3

/**
 * Every statement is an index probe per element of an array, and must stay one whatever the statistics say: on a table
 * that was empty when it was planned, and with a million rows parked on one endpoint. So each is planned once
 * (generically), and the other ways to read a table are switched off. Without this, a plan made while `pending` was
 * empty reads all of it for ever after. JIT would compile such plans for 100 ms each because of the costs the switches add.
 */
const settings = {
  default_transaction_isolation: 'read committed',
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  max_parallel_workers_per_gather: '0',
  jit: 'off',
  client_min_messages: 'warning',
  bytea_output: 'hex',
  statement_timeout: String(statementTimeoutMs),
  lock_timeout: '5000',
  idle_in_transaction_session_timeout: '10000',
}

/** The settings of a connection to the server itself. */
export const sessionSettings = Object.entries(settings)
  .map(([name, value]) => `set ${name} = '${value}'`)
  .join('; ')

/** Where a commit waits for the disk. A stronger setting (remote_apply) is the operator's choice and stays. */
const isDurable = `current_setting('synchronous_commit') in ('on', 'remote_apply')`

const durableSettings = `select set_config('synchronous_commit', 'on', false) where not ${isDurable}`

/** As `durableSettings`, for the transaction that is open. */
export const commitDurably = `select set_config('synchronous_commit', 'on', true) where not ${isDurable}`

/**
 * A column that undoes its statement where a commit would not wait for the disk: each transaction proves by itself that it is
 * durable, whatever became of the connection's settings.
 */
export const provesDurable = `case when ${isDurable} then true else current_setting('${durabilityProof}')::boolean end`

/** The settings of a transaction behind a pooler. A transaction that has begun cannot change its isolation. */
function transactionSettings(durable: boolean): string {
  const { default_transaction_isolation: _, ...others } = settings
  const commit = durable ? `case when ${isDurable} then current_setting('synchronous_commit') else 'on' end` : `'off'`
  return settingLocally([
    ...Object.entries(others).map(([name, value]) => [name, `'${value}'`] as const),
    ['synchronous_commit', commit],
  ])
}

const inspect = `
  select pg_backend_pid() as pid, current_setting('fsync') as fsync,
         current_setting('full_page_writes') as full_page_writes,
         current_setting('default_transaction_isolation') as isolation, ${standingColumns}`

/** Opens connections on demand; none is made before the first statement. */
export function openSessions(options: SessionOptions): Sessions {
  const { servers } = options
  const pool = new pg.Pool({
    // A constructor that answers an object makes that object.
    Client: function makeClient() {
      return servers.newClient()
    } as unknown as new () => pg.ClientBase,
    connectionTimeoutMillis,
    max: options.connections ?? directConnections,
    idleTimeoutMillis: 60_000,
    onConnect: async (client: pg.ClientBase) => {
      const naming = await prepare(client, options)
      if (naming === undefined) return
      poolers.set(client, naming)
      pool.options.max = options.connections ?? pooledConnections
      options.onPooler?.()
    },
  } as pg.PoolConfig)
  /** How the pooler that a connection leads to treats prepared statements. */
  const poolers = new WeakMap<pg.ClientBase, Naming>()
  const local = transactionSettings(options.durable)
  pool.on('error', (error) => options.onTrouble(`postgres: an idle connection was lost: ${error.message}`))
  // A connection in use reports its loss through the statement; unheard, the event would end the process.
  pool.on('connect', (client) => client.on('error', () => {}))

  /** Vacuum is no part of a transaction, and needs no settings. */
  async function alone(client: pg.ClientBase, naming: Naming, statement: PostgresStatement, values?: Values) {
    if (statement.name === '') return query(client, statement, values)
    return runWith(client, local, nameless(statement, naming), made(values))
  }

  const sessions: Sessions = {
    run: async (statement, values) => {
      const client = await connect(servers, pool)
      try {
        const naming = poolers.get(client)
        const rows =
          naming === undefined ? await query(client, statement, values) : await alone(client, naming, statement, values)
        client.release()
        return rows as never[]
      } catch (error) {
        client.release(isLost(servers, error))
        throw explain(error)
      }
    },
    transaction: async (work) => {
      const client = await connect(servers, pool)
      try {
        const naming = poolers.get(client)
        await client.query(
          naming === undefined ? 'begin' : `begin isolation level ${settings.default_transaction_isolation}; ${local}`,
        )
        const run: Run = (statement, values) => query(client, nameless(statement, naming), values)
        const result = await work(run)
        const committed = await sessions.beforeCommit?.(run)
        await client.query('commit')
        committed?.()
        client.release()
        return result
      } catch (error) {
        client.release(isLost(servers, error) || !(await rolledBack(client)))
        throw explain(error)
      }
    },
    end: () => pool.end(),
  }
  return sessions
}

function nameless(statement: PostgresStatement, naming: Naming | undefined): PostgresStatement {
  return naming === 'unnamed' ? { name: '', text: statement.text } : statement
}

/** Whether the connection cannot be used for something else. Of several servers, another one may take writes then. */
function isLost(servers: Servers, error: unknown): boolean {
  const lost = spoilsConnection(error)
  if (lost) servers.doubt()
  return lost
}

async function connect(servers: Servers, pool: pg.Pool): Promise<pg.PoolClient> {
  try {
    return await servers.connect(() => pool.connect())
  } catch (error) {
    throw explain(error)
  }
}

async function query<Row>(client: pg.ClientBase, statement: PostgresStatement, values?: Values): Promise<Row[]> {
  const result = await client.query({ name: statement.name, text: statement.text, values: made(values) })
  return result.rows as Row[]
}

async function rolledBack(client: pg.PoolClient): Promise<boolean> {
  try {
    await client.query('rollback')
    return true
  } catch {
    return false // the caller already has the first error; the connection is thrown away
  }
}

interface Inspected extends Standing {
  readonly pid: number
  readonly fsync: string
  readonly full_page_writes: string
  readonly isolation: string
}

/**
 * Sets a new connection up, and refuses it when its commits would not survive a power cut. Nothing is set before a pooler is
 * ruled out: behind one, the settings would be those of other programs. Answers how a pooler treats prepared statements.
 */
async function prepare(client: pg.ClientBase, { durable, servers }: SessionOptions): Promise<Naming | undefined> {
  const { rows } = await client.query<Inspected>(inspect)
  const { pid, isolation, fsync, full_page_writes, ...standing } = rows[0] as Inspected
  servers.admit(client, standing)
  const weak = Object.entries({ fsync, full_page_writes }).filter(([, value]) => value !== 'on')
  if (weak.length > 0) {
    const list = weak.map(([name, value]) => `${name} = ${value}`).join(', ')
    throw new NotDurableError(`The Postgres server would lose accepted messages in a power cut: ${list}`)
  }
  if (!isDirect(client, pid)) {
    if (isolation !== settings.default_transaction_isolation) throw new IsolationError(isolation)
    return namingOf(client)
  }
  await client.query(`${sessionSettings}; ${durable ? durableSettings : 'set synchronous_commit = off'}`)
  return undefined
}

/**
 * Whether the process of the server that answers is the one that named itself when the connection was made. A pooler names
 * itself, since it is also the one that cancels statements; address translation and TCP proxies pass the name on.
 */
export function isDirect(client: pg.ClientBase, pid: number | undefined): boolean {
  return (client as unknown as { readonly processID: number | null }).processID === pid
}

// Rows go to the server as one array per column, unnested there: one round trip for any number of them. The arrays are
// written here rather than by the driver, which runs two regular expressions over every element, numbers included.

/** A bigint[] or integer[] parameter. Fractions are rounded: clocks measure them, columns do not take them. */
export function integers(values: readonly (number | null)[]): string {
  let text = '{'
  for (let i = 0; i < values.length; i++) {
    if (i > 0) text += ','
    const value = values[i] as number | null
    text += value === null ? 'null' : Math.round(value)
  }
  return `${text}}`
}

/** A boolean[] parameter. */
export function booleans(values: readonly boolean[]): string {
  return `{${values.join(',')}}`
}

/** A text[] parameter. */
export function texts(values: readonly (string | null)[]): string {
  let text = '{'
  for (let i = 0; i < values.length; i++) {
    if (i > 0) text += ','
    const value = values[i] as string | null
    if (value === null) text += 'null'
    else text += special.test(value) ? `"${value.replace(quoted, '\\$&')}"` : `"${value}"`
  }
  return `${text}}`
}

const special = /["\\]/
const quoted = /["\\]/g

/**
 * Several byte strings as one binary parameter and the place of each in it (from 1; a missing one has none). Written as
 * a bytea[] every byte would travel as two hex digits, escaped and parsed on both sides.
 */
interface PackedBytes {
  readonly bytes: Buffer
  readonly starts: string
  readonly lengths: string
}

/** Packs byte strings for `substring($bytes from start for length)`. */
export function packed(values: readonly (Uint8Array | null)[]): PackedBytes {
  const starts: (number | null)[] = []
  const lengths: (number | null)[] = []
  const parts: Uint8Array[] = []
  let at = 1
  for (const value of values) {
    starts.push(value === null ? null : at)
    lengths.push(value === null ? null : value.byteLength)
    if (value === null || value.byteLength === 0) continue
    parts.push(value)
    at += value.byteLength
  }
  return { bytes: Buffer.concat(parts), starts: integers(starts), lengths: integers(lengths) }
}
