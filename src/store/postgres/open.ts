import type { SteadyMs } from '../../domain/clock.ts'
import type { Identity } from '../../domain/ids.ts'
import { storeTraits } from '../../domain/store-traits.ts'
import type {
  OpenTransaction,
  PostgresCondition,
  ReplicationFacts,
  StoreCondition,
} from '../../features/doctor/facts.ts'
import { type Administration, administration } from '../../features/rows.ts'
import type { PublishAlong } from '../../features/schedules/rows.ts'
import { finishLater, waitFor } from '../sql/port.ts'
import { areSealed, sealAll } from '../sql/sealing.ts'
import type { Store, StoreContext } from '../store.ts'
import { callerTransaction } from './caller-transaction.ts'
import { type Database, Keys, ServerTime } from './database.ts'
import { delivering } from './delivering.ts'
import { idempotency } from './idempotency.ts'
import { intake } from './intake.ts'
import { LaneWakes } from './lane-wakes.ts'
import { migrate } from './migrate.ts'
import { ownership } from './ownership.ts'
import { ensurePartitions, keepPartitions, serverNow } from './partitions.ts'
import { Poller } from './polling.ts'
import { onPostgres, postgresPort, sqlOver, trailing } from './port.ts'
import { Presence } from './presence.ts'
import { historyRemover } from './retention.ts'
import { Servers } from './servers.ts'
import { openSessions, postgresStatement, type Sessions, writeNothing } from './sessions.ts'
import { Listener, Signals } from './signals.ts'
import { Succession } from './succession.ts'
import { explain, NoStandbyError, UnfitServerError } from './trouble.ts'

export interface PostgresOptions {
  /** One server or several, as `readPostgresUrl` has it. */
  readonly url: string
  /** The server itself, where `url` leads to a pooler: for notifications, locks of a session and migrations. */
  readonly directUrl?: string | null
  /** Connections at most, the one that listens included. */
  readonly connections?: number | null
  /** Reads the password of both, in place of that of the URLs. */
  readonly readPassword?: (() => Promise<string>) | undefined
}

const pingServer = postgresStatement('ping')`select 1`

/** How long a verdict about the server counts, so that asking for health cannot load it. */
const verdictMs = 1000

/** Opens the database, makes sure that a commit survives power loss, and brings the tables up to date. */
export async function openPostgresStore(context: StoreContext, options: PostgresOptions): Promise<Store> {
  const { url, directUrl, readPassword } = options
  const succession = new Succession()
  const serversAt = (at: string) => new Servers({ url: at, clock: context.clock, succession, readPassword })
  const servers = serversAt(url)
  const direct = directUrl == null ? servers : serversAt(directUrl)
  const onTrouble = (sentence: string) => context.onTrouble?.(sentence)
  let isPooled = false
  const shared = {
    servers,
    onTrouble,
    onPooler: () => {
      isPooled = true
    },
  }
  const durable = openSessions({ ...shared, durable: true, connections: shareOf(options, 1) })
  const relaxed = openSessions({ ...shared, durable: false, connections: shareOf(options, 0) })
  try {
    // The first connection is refused when the server is not durable, before anything is written.
    await durable.run(pingServer)
    await relaxed.run(pingServer)
    const notice = await migrate(direct)
    if (notice !== undefined) context.log?.(notice)
    const time = new ServerTime(context.clock)
    await keepUp(durable, time)
    const signals = new Signals(context.randomText(8), context.clock)
    const wakes = new LaneWakes(relaxed, context, signals)
    const presence = new Presence(context, signals)
    const database = {
      context,
      servers,
      durable,
      relaxed,
      time,
      keys: new Keys(durable, time),
      signals,
      wakes,
      presence,
    }
    const port = postgresPort(database)
    if (!(await finishLater(areSealed(port)))) await finishLater(sealAll(port))
    const hearing =
      isPooled && directUrl == null ? new Poller(context, signals) : new Listener(direct, context, signals, presence)
    if (isPooled && directUrl == null) context.log?.(pollingInstead)
    await hearing.open(durable.run)
    return storeOver(hearing, database)
  } catch (error) {
    await Promise.all([durable.end(), relaxed.end()])
    // The start says it in full.
    const cause = error instanceof UnfitServerError ? error : (error as Error).cause
    throw cause instanceof UnfitServerError ? cause : explain(error)
  }
}

const pollingInstead =
  'a connection pooler answers in place of the Postgres server: changes of other processes are seen up to a second later, and ' +
  'the lanes of a process that dies wait for its lease. SLUICE_STORE_DIRECT names the server itself, for one connection of ' +
  'each process that listens'

/** How many of its connections a process has for one of two kinds. */
function shareOf({ connections }: PostgresOptions, rest: 0 | 1): number | undefined {
  // One listens.
  return connections == null ? undefined : Math.max(1, Math.floor((connections - 1 + rest) / 2))
}

/** Learns the server's clock, and makes a place for the days to come. */
async function keepUp(sessions: Sessions, time: ServerTime): Promise<void> {
  const now = await serverNow(sessions)
  time.learn(now)
  await ensurePartitions(sessions, now)
}

/** Tables that held erased bytes, with the columns that held them. */
const erasedColumns = {
  message: 'body, event_id, ordering_key, trace',
  attempt: 'error, response',
  variant: 'body, signature',
  dead: 'error, response',
  event_id: 'event_id',
  subject: 'hash',
}

/**
 * Has the server reclaim dead rows, and forget erased values in the sample that its planner keeps of each column. A sample
 * of one value is read from 300 rows of each table, and these columns need no better one. Another vacuum of a table, or a
 * lock on it, leaves that table for the server's own.
 */
async function scrub({ relaxed, context }: Database): Promise<void> {
  try {
    for (const [table, columns] of Object.entries(erasedColumns)) {
      await relaxed.run({ name: '', text: `vacuum (skip_locked) ${table}` })
      await relaxed.transaction(async (run) => {
        await run({ name: '', text: 'set local default_statistics_target = 1' })
        await run({ name: '', text: `analyze (skip_locked) ${table} (${columns})` })
      })
    }
  } catch (error) {
    context.log?.(`postgres: erased rows are left to the server's own vacuum: ${(error as Error).message}`)
  }
}

function storeOver(hearing: Listener | Poller, database: Database): Store {
  const { context, durable, relaxed, signals, wakes } = database
  const port = postgresPort(database)
  const taking = intake(database)
  const publishAlong: PublishAlong = (publication, along) =>
    waitFor(
      taking.publishTogether([publication], null, (run, [message]) =>
        finishLater(along(sqlOver(run), (message as Identity).id)),
      ),
    )
  const partitions = keepPartitions(durable, context)
  let closing: Promise<void> | undefined
  let probe: { readonly at: SteadyMs; readonly verdict: Promise<undefined> } | undefined

  async function close(): Promise<void> {
    signals.watcher = undefined
    await Promise.all([hearing.close(), wakes.close(), partitions.idle()])
    await Promise.all([durable.end(), relaxed.end()])
  }

  return {
    dialect: 'postgres',
    traits: storeTraits.postgres,
    ...onPostgres<Administration>(administration(port, { publishAlong, removeHistory: historyRemover(database) })),
    ...taking,
    ...ownership(database, partitions),
    ...delivering(database),
    ...idempotency(database),
    ...callerTransaction(database),
    ...trailing(database),
    upkeep: () => keepUp(durable, database.time),
    scrubErased: () => scrub(database),
    watch(watcher) {
      signals.watcher = watcher
    },
    ping() {
      const now = context.clock.steady()
      if (probe === undefined || now - probe.at >= verdictMs) {
        probe = { at: now, verdict: durable.run(writeNothing).then(() => undefined) }
      }
      return probe.verdict
    },
    condition: () => condition(database),
    close: () => (closing ??= close()),
  }
}

// These read catalogs and the server's own figures, whose size does not depend on the number of deliveries.

const selectSettings = postgresStatement('condition-settings')`
  select current_database()::text as database, pg_database_size(current_database()) as bytes,
         current_setting('fsync') as fsync,
         current_setting('full_page_writes') as full_page_writes,
         current_setting('autovacuum') = 'on' as autovacuum,
         (select reset_val from pg_settings where name = 'synchronous_commit') as "synchronousCommit"`

// Superusers have connections of their own.
const selectConnections = postgresStatement('condition-connections')`
  select count(*) as server_used,
         current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as server_limit,
         count(*) filter (where datname = current_database()) as database_used,
         (select datconnlimit from pg_database where datname = current_database()) as database_limit,
         count(*) filter (where usename = current_user) as role_used,
         (select rolconnlimit from pg_roles where rolname = current_user) as role_limit
    from pg_stat_activity where backend_type = 'client backend'`

const selectTransaction = postgresStatement('condition-transaction')`
  with waiting as materialized (
    select pg_blocking_pids(pid) as blockers from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock')
  select pid, application_name as application, state like 'idle%' as "isIdle",
         greatest(0, floor(extract(epoch from clock_timestamp() - xact_start) * 1000))::bigint as "ageMs",
         (select count(*) from waiting where pid = any(blockers)) as blocks
    from pg_stat_activity
   where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
     and xact_start is not null
   order by xact_start limit 1`

const selectDeadRows = postgresStatement('condition-dead-rows')`
  select relname::text as table, n_dead_tup as dead, n_live_tup as live from pg_stat_user_tables
   where schemaname = current_schema() order by n_dead_tup desc limit 1`

// Others than standbys are fed, too: backups, and subscribers of a publication.
const selectReplication = postgresStatement('condition-replication')`
  select current_setting('synchronous_standby_names') as awaited, count(pid) as following,
         count(*) filter (where sync_state in ('sync', 'quorum')) as "inStep", count(sync_state) as visible
    from pg_stat_replication
   where coalesce(state, '') <> 'backup'
     and pid not in (select active_pid from pg_replication_slots where slot_type = 'logical' and active_pid is not null)`

interface Replication {
  readonly awaited: string
  readonly following: number
  readonly inStep: number
  readonly visible: number
}

async function replicationOf(relaxed: Sessions, named: number): Promise<ReplicationFacts> {
  const [row] = await relaxed.run<Replication>(selectReplication)
  const { awaited, following, inStep, visible } = row as Replication
  return { named, awaited, following, synchronous: visible < following ? null : inStep }
}

/** Makes one durable write that changes no table, and reads the server's settings and sessions. */
async function condition({ context, durable, relaxed, servers }: Database): Promise<StoreCondition> {
  const replication = await replicationOf(relaxed, servers.count)
  if (replication.awaited !== '' && replication.synchronous === 0) throw new NoStandbyError(replication.awaited)
  const begunAt = context.clock.steady()
  await durable.run(writeNothing)
  const commitMs = context.clock.steady() - begunAt
  const [settings] = await relaxed.run<Settings>(selectSettings)
  const [connections] = await relaxed.run<Connections>(selectConnections)
  const [transaction] = await relaxed.run<OpenTransaction>(selectTransaction)
  const [deadRows] = await relaxed.run<NonNullable<PostgresCondition['deadRows']>>(selectDeadRows)
  const { bytes, fsync, full_page_writes, ...own } = settings as Settings
  const unsafe = Object.entries({ fsync, full_page_writes }).filter(([, value]) => value !== 'on')
  const server: PostgresCondition = {
    ...own,
    unsafe: unsafe.map(([name, value]) => `${name} = ${value}`),
    connections: nearestLimit(connections as Connections),
    replication,
    oldestTransaction: transaction ?? null,
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

interface Settings extends Pick<PostgresCondition, 'database' | 'autovacuum' | 'synchronousCommit'> {
  readonly bytes: number
  readonly fsync: string
  readonly full_page_writes: string
}

type Connections = Readonly<Record<`${'server' | 'database' | 'role'}_${'used' | 'limit'}`, number>>
