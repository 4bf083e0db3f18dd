import type { SteadyMs } from '../../domain/clock.ts'
import type { Identity } from '../../domain/ids.ts'
import { type Administration, administration } from '../sql/administration.ts'
import { finishLater, waitFor } from '../sql/port.ts'
import type { PublishAlong } from '../sql/schedules.ts'
import { areSealed, sealAll } from '../sql/sealing.ts'
import type { Store, StoreContext } from '../store.ts'
import { bounding } from './bounding.ts'
import { condition } from './condition.ts'
import { type Database, ServerTime } from './database.ts'
import { delivering } from './delivering.ts'
import { enlisting } from './enlisting.ts'
import { idempotency } from './idempotency.ts'
import { intake } from './intake.ts'
import { Keys } from './keys.ts'
import { LaneWakes } from './lane-wakes.ts'
import { Listener } from './listen.ts'
import { migrate } from './migrate.ts'
import { ownership } from './ownership.ts'
import { ensurePartitions, keepPartitions, serverNow } from './partitions.ts'
import { onPostgres, postgresPort, sqlOver, trailing } from './port.ts'
import { historyRemover } from './retention.ts'
import { openSessions, postgresStatement, type Sessions, writeNothing } from './sessions.ts'
import { Signals } from './signals.ts'
import { explain } from './trouble.ts'

export interface PostgresOptions {
  readonly url: string
  /** Connections of each of the two kinds, beside the one that listens. */
  readonly connections?: number
}

const pingServer = postgresStatement('ping', 'select 1')

/** How long a verdict about the server counts, so that asking for health cannot load it. */
const verdictMs = 1000

/** Opens the database, makes sure that a commit survives power loss, and brings the tables up to date. */
export async function openPostgresStore(context: StoreContext, options: PostgresOptions): Promise<Store> {
  const { url, connections = 4 } = options
  const onTrouble = (sentence: string) => context.onTrouble?.(sentence)
  const durable = openSessions({ url, durable: true, connections, onTrouble })
  const relaxed = openSessions({ url, durable: false, connections, onTrouble })
  try {
    // The first connection is refused when the server is not durable, before anything is written.
    await durable.run(pingServer)
    await relaxed.run(pingServer)
    await migrate(url)
    const time = new ServerTime(context.clock)
    await keepUp(durable, time)
    const signals = new Signals(context.randomText(8), context.clock)
    const wakes = new LaneWakes(relaxed, context, signals)
    const database = { context, durable, relaxed, time, keys: new Keys(durable, time), signals, wakes }
    const port = postgresPort(database)
    if (!(await finishLater(areSealed(port)))) await finishLater(sealAll(port))
    const listener = new Listener(url, context, signals)
    await listener.open()
    return storeOver(url, listener, database)
  } catch (error) {
    await Promise.all([durable.end(), relaxed.end()])
    throw explain(error)
  }
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
  unfiled: 'error, response',
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

function storeOver(url: string, listener: Listener, database: Database): Store {
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
    await Promise.all([listener.close(), wakes.close(), partitions.idle()])
    await Promise.all([durable.end(), relaxed.end()])
  }

  return {
    dialect: 'postgres',
    ...onPostgres<Administration>(administration(port, { publishAlong, removeHistory: historyRemover(database) })),
    ...taking,
    ...ownership(database, partitions),
    ...delivering(database),
    ...bounding(database),
    ...idempotency(database),
    ...enlisting(database, url),
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
