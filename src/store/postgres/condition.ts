import type { OpenTransaction, PostgresCondition, StoreCondition } from '../../domain/doctor-facts.ts'
import type { Database } from './database.ts'
import { serverNow } from './partitions.ts'
import { postgresStatement, writeNothing } from './sessions.ts'

// These read catalogs and the server's own figures, whose size does not depend on the number of deliveries.

const selectSettings = postgresStatement(
  'condition-settings',
  `select current_database()::text as database, pg_database_size(current_database()) as bytes,
          current_setting('fsync') as fsync,
          current_setting('full_page_writes') as full_page_writes,
          current_setting('autovacuum') = 'on' as autovacuum,
          (select reset_val from pg_settings where name = 'synchronous_commit') as synchronous_commit`,
)

// Superusers have connections of their own.
const selectConnections = postgresStatement(
  'condition-connections',
  `select count(*) as server_used,
          current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as server_limit,
          count(*) filter (where datname = current_database()) as database_used,
          (select datconnlimit from pg_database where datname = current_database()) as database_limit,
          count(*) filter (where usename = current_user) as role_used,
          (select rolconnlimit from pg_roles where rolname = current_user) as role_limit
     from pg_stat_activity where backend_type = 'client backend'`,
)

const selectTransaction = postgresStatement(
  'condition-transaction',
  `with waiting as materialized (
     select pg_blocking_pids(pid) as blockers from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock')
   select pid, application_name as application, state like 'idle%' as is_idle,
          floor(extract(epoch from clock_timestamp() - xact_start) * 1000)::bigint as age_ms,
          (select count(*) from waiting where pid = any(blockers)) as blocks
     from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
      and xact_start is not null
    order by xact_start limit 1`,
)

const selectDeadRows = postgresStatement(
  'condition-dead-rows',
  `select relname::text as table, n_dead_tup as dead, n_live_tup as live from pg_stat_user_tables
    where schemaname = current_schema() order by n_dead_tup desc limit 1`,
)

/** Makes one durable write that changes no table, and reads the server's settings and sessions. */
export async function condition({ context, durable, relaxed }: Database): Promise<StoreCondition> {
  const begunAt = context.clock.steady()
  await durable.run(writeNothing)
  const commitMs = context.clock.steady() - begunAt
  const [settings] = await relaxed.run<Settings>(selectSettings)
  const [connections] = await relaxed.run<Connections>(selectConnections)
  const [transaction] = await relaxed.run<TransactionRow>(selectTransaction)
  const [deadRows] = await relaxed.run<NonNullable<PostgresCondition['deadRows']>>(selectDeadRows)
  const { database, bytes, fsync, full_page_writes, autovacuum, synchronous_commit } = settings as Settings
  const unsafe = Object.entries({ fsync, full_page_writes }).filter(([, value]) => value !== 'on')
  const server: PostgresCondition = {
    database,
    unsafe: unsafe.map(([name, value]) => `${name} = ${value}`),
    synchronousCommit: synchronous_commit,
    autovacuum,
    connections: nearestLimit(connections as Connections),
    oldestTransaction: transaction === undefined ? null : toTransaction(transaction),
    deadRows: deadRows ?? null,
  }
  return { now: await serverNow(relaxed), commitMs, bytes, logBytes: null, disk: null, server }
}

/** The limit with the largest share in use; -1 stands for no limit. */
function nearestLimit(row: Connections): PostgresCondition['connections'] {
  const limits = [
    { of: 'server', used: row.server_used, limit: row.server_limit },
    { of: 'database', used: row.database_used, limit: row.database_limit },
    { of: 'role', used: row.role_used, limit: row.role_limit },
  ] as const
  return limits.filter(({ limit }) => limit > 0).toSorted((a, b) => b.used / b.limit - a.used / a.limit)[0] ?? limits[0]
}

function toTransaction({ pid, application, is_idle, age_ms, blocks }: TransactionRow): OpenTransaction {
  return { pid, application, isIdle: is_idle, ageMs: Math.max(0, age_ms), blocks }
}

interface Settings {
  readonly database: string
  readonly bytes: number
  readonly fsync: string
  readonly full_page_writes: string
  readonly autovacuum: boolean
  readonly synchronous_commit: string
}

interface Connections {
  readonly server_used: number
  readonly server_limit: number
  readonly database_used: number
  readonly database_limit: number
  readonly role_used: number
  readonly role_limit: number
}

interface TransactionRow {
  readonly pid: number
  readonly application: string
  readonly is_idle: boolean
  readonly age_ms: number
  readonly blocks: number
}
