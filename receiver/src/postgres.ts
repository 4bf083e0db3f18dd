import { defaultKeepSeconds, type OnceStore, type Outcome, shortWaitMs, type Transaction } from './once.ts'
import { notFirst, pruneEvery, pruneRows, type Remembered, tableName } from './table.ts'

/** Runs one statement: a pool or a client of `pg` has it, and so have PGlite and Neon's driver. */
export interface PostgresQuery {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>
}

/** Gives out connections: a pool of `pg`. */
export interface PostgresPool extends PostgresQuery {
  connect(): Promise<PostgresClient>
}

/** The connection that a pool gives out. `connect` of `pg` has a second form, with a callback. */
export type ClientOf<Pool> = Pool extends {
  connect: { (): Promise<infer Client extends PostgresClient>; (...args: never[]): unknown }
}
  ? Client
  : PostgresClient

export interface PostgresClient extends PostgresQuery {
  release(error?: Error | boolean): void
}

export interface PostgresOptions {
  /** The name of the table; `sluice_handled` by default. */
  readonly table?: string | undefined
  /** Whether the table is created if it does not exist; true by default. `postgresTable` is its statement. */
  readonly createTable?: boolean | undefined
}

export interface PostgresStore extends OnceStore {
  /** Creates the table if it does not exist. The first claim does it, too. */
  open(): Promise<void>
  /**
   * Remembers the message as handled within the transaction of the client, unless it was handled before (`duplicate`) or
   * another caller works on it (`busy`). The work belongs into the same transaction. Call `open` before.
   */
  remember(client: PostgresQuery, id: string, keepMs?: number): Promise<Remembered>
}

/** The statement that creates the table, for migrations of your own. */
export function postgresTable(table?: string): string {
  const name = tableName(table)
  return `create table if not exists ${name} (id text primary key, token text, until timestamptz not null);
create index if not exists ${name}_until on ${name} (until)`
}

/** A store in a Postgres database. The time is that of the database, the same for all processes. */
export function postgresStore(database: PostgresQuery, options: PostgresOptions = {}): PostgresStore {
  const { createTable = true } = options
  const name = tableName(options.table)
  const isDue = pruneEvery()
  let opened: Promise<void> | undefined
  const open = () => {
    opened ??= createTable ? created(database, postgresTable(name)) : Promise.resolve()
    // A database that was away when the first request came must not be away for good.
    opened.catch(() => {
      opened = undefined
    })
    return opened
  }
  /** Puts an entry in place of none or an expired one. An entry without a token is a handled message. */
  const put = async (query: PostgresQuery, id: string, token: string | null, forMs: number) => {
    const { rows } = await query.query(
      `insert into ${name} (id, token, until) values ($1, $2, clock_timestamp() + $3 * interval '1 ms')
       on conflict (id) do update set token = excluded.token, until = excluded.until
       where ${name}.until <= clock_timestamp() returning id`,
      [id, token, forMs],
    )
    return rows.length > 0
  }
  const look = async (query: PostgresQuery, id: string) => {
    const { rows } = await query.query(
      `select token is null as handled, ceil(extract(epoch from until - clock_timestamp()) * 1000)::float8 as ms
       from ${name} where id = $1`,
      [id],
    )
    // The entry was released in between: another attempt will find it free.
    return (rows[0] ?? { handled: false, ms: shortWaitMs }) as { handled: boolean; ms: number }
  }
  const prune = async (query: PostgresQuery) => {
    await query.query(
      `delete from ${name} where id in (select id from ${name} where until <= clock_timestamp()
       order by until limit ${pruneRows} for update skip locked)`,
    )
  }
  return {
    open,
    async claim(id, token, leaseMs) {
      await open()
      if (await put(database, id, token, leaseMs)) return 'claimed'
      const { handled, ms } = await look(database, id)
      return handled ? 'handled' : { busyMs: Math.max(ms, 1) }
    },
    async complete(id, keepMs) {
      await database.query(
        `insert into ${name} (id, token, until) values ($1, null, clock_timestamp() + $2 * interval '1 ms')
         on conflict (id) do update set token = null, until = excluded.until`,
        [id, keepMs],
      )
      if (isDue()) await prune(database)
    },
    async release(id, token) {
      await database.query(`delete from ${name} where id = $1 and token = $2`, [id, token])
    },
    async remember(client, id, keepMs = defaultKeepSeconds * 1000) {
      // Without the lock, the insert would wait for the end of another transaction that handles the same message.
      const { rows } = await client.query('select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as free', [
        `${name}:${id}`,
      ])
      if ((rows[0] as { free: boolean }).free !== true) return 'busy'
      if (!(await put(client, id, null, keepMs))) return (await look(client, id)).handled ? 'duplicate' : 'busy'
      if (isDue()) await prune(client)
      return 'first'
    },
  }
}

/** Does the work of a message and remembers it in one transaction of a connection of the pool: both happen or neither. */
export function postgresTransaction<Pool extends PostgresPool>(
  pool: Pool,
  { keepSeconds = defaultKeepSeconds, ...options }: PostgresOptions & { readonly keepSeconds?: number } = {},
): Transaction<ClientOf<Pool>> {
  const store = postgresStore(pool, options)
  return {
    async run<T>(id: string, work: (tx: ClientOf<Pool>) => T | Promise<T>): Promise<Outcome<T>> {
      await store.open()
      const client = (await pool.connect()) as ClientOf<Pool>
      let broken: Error | undefined
      try {
        await client.query('begin')
        const remembered = await store.remember(client, id, keepSeconds * 1000)
        if (remembered !== 'first') {
          await client.query('rollback')
          return notFirst(remembered)
        }
        const value = await work(client)
        await client.query('commit')
        return { outcome: 'handled', value }
      } catch (error) {
        // A connection that cannot roll back is not used again.
        await client.query('rollback').catch((trouble: Error) => {
          broken = trouble
        })
        throw error
      } finally {
        client.release(broken)
      }
    },
  }
}

/** Errors of a collision in Postgres' catalogue: a unique key, a table, or the type of a table that is there meanwhile. */
const collisions: readonly unknown[] = ['23505', '42P07', '42710']

/** Processes that create the table at once can collide: the second try finds the table. */
async function created(database: PostgresQuery, statement: string): Promise<void> {
  for (const each of statement.split(';')) {
    try {
      await database.query(each)
    } catch (error) {
      if (!collisions.includes((error as { code?: unknown }).code)) throw error
      await database.query(each)
    }
  }
}
