import type { Class } from '../../domain/delivery.ts'
import {
  type CallerTransaction,
  type Enlisted,
  type Match,
  NotEnlistableError,
  type Publication,
  type Published,
} from '../publishing.ts'
import { publishEnlisted } from '../sql/intake.ts'
import { finishLater, waitFor } from '../sql/port.ts'
import { columnTypes } from './client.ts'
import type { Database } from './database.ts'
import { intake } from './intake.ts'
import { LaneWakes } from './lane-wakes.ts'
import { postgresPort } from './port.ts'
import {
  commitDurably,
  made,
  type PostgresStatement,
  postgresStatement,
  type Run,
  type Sessions,
  type Values,
} from './sessions.ts'
import { Signals } from './signals.ts'
import { explain, stateOf } from './trouble.ts'

/** The part of a `pg` client that is used here. A statement without a name leaves nothing behind on the connection. */
interface Client {
  query(config: string | ClientQuery): Promise<{ readonly rows: unknown[] }>
}

interface ClientQuery {
  readonly text: string
  readonly values: unknown[]
  readonly types: unknown
}

// Publishing names these tables without their schema: the client's search_path must lead to the tables of the store.
const tables = [
  ...['migration', 'application', 'endpoint', 'message', 'event_id', 'pending', 'fan_out', 'idempotency'],
  ...['variant', 'payload_end', 'dead', 'subject'],
]

// When each migration ran, and the ids of the database and its tables. They differ between two databases, also when one is
// a copy of the other, and show whether the tables are those that this store knows.
const selectMigrations = postgresStatement('migrations')`
  select concat_ws(' ', (select oid from pg_database where datname = current_database()),
                   ${tables.map((table) => `'${table}'::regclass::oid`).join(', ')},
                   string_agg(version || '@' || applied_at, ' ' order by version)) as applied
    from migration`

/** Keeps signals about new rows until the rows are committed. */
class LaterSignals extends Signals {
  readonly kept: (() => void)[] = []
  readonly #signals: Signals

  constructor({ context, signals }: Database) {
    super('', context.clock)
    this.#signals = signals
  }

  override rows(endpoints?: readonly number[], itsClass?: Class): void {
    this.kept.push(() => this.#signals.rows(endpoints, itsClass))
  }

  override fanOuts(): void {
    this.kept.push(() => this.#signals.fanOuts())
  }
}

/** Keeps the lanes to be woken until their rows are committed. */
class LaterWakes extends LaneWakes {
  readonly kept: (() => void)[] = []
  readonly #wakes: LaneWakes

  constructor({ relaxed, context, signals, wakes }: Database) {
    super(relaxed, context, signals)
    this.#wakes = wakes
  }

  override request(...[endpoints, ...rest]: Parameters<LaneWakes['request']>): void {
    const list = [...endpoints]
    this.kept.push(() => this.#wakes.request(list, ...rest))
  }
}

/** Publishes within callers' transactions on the same database. */
export function callerTransaction(database: Database): CallerTransaction {
  let applied: Promise<unknown> | undefined

  /** Rejects unless the client sees the tables of this very store. */
  async function assertSameDatabase(run: Run): Promise<void> {
    const theirs = await appliedIn(run)
    applied ??= appliedIn(database.durable.run)
    if ((await applied.catch(() => undefined)) === theirs) return
    // A newer Sluice may have migrated the database since it was looked at.
    applied = appliedIn(database.durable.run)
    if ((await applied) === theirs) return
    throw new NotEnlistableError('The connection is not on the database that the store is on.')
  }

  async function publish(durable: Sessions, ref: string, match: Match): Promise<Enlisted | undefined> {
    const signals = new LaterSignals(database)
    const wakes = new LaterWakes(database)
    const enlisted = { ...database, durable, signals, wakes }
    const { publish: publishAll } = intake(enlisted)
    const publishOne = (publication: Publication) =>
      waitFor(publishAll([publication]).then(([published]) => published as Published))
    const stored = await finishLater(publishEnlisted(postgresPort(enlisted), publishOne, ref, match))
    return (
      stored && {
        published: stored.published,
        committed() {
          for (const say of [...wakes.kept.splice(0), ...signals.kept.splice(0)]) say()
        },
      }
    )
  }

  return {
    async publishWithin(connection, ref, match) {
      if (!isClient(connection)) {
        throw new NotEnlistableError('The store is a Postgres database: publish with a client of the package pg.')
      }
      await openSavepoint(connection)
      const sessions = sessionsOver(connection, columnTypes)
      try {
        await assertSameDatabase(sessions.run)
        const enlisted = await publish(sessions, ref, match)
        await connection.query('release savepoint sluice')
        return enlisted
      } catch (error) {
        await undo(connection, 'release savepoint sluice')
        throw explain(error)
      }
    },
  }
}

/** The client's one transaction in place of sessions. A failed statement is undone, so that it can be tried again. */
function sessionsOver(client: Client, types: unknown): Sessions {
  const run: Run = async <Row>({ text }: PostgresStatement, values?: Values) => {
    try {
      return (await client.query({ text, values: [...made(values)], types })).rows as Row[]
    } catch (error) {
      await undo(client)
      throw explain(error)
    }
  }
  const transaction = async <T>(work: (run: Run) => Promise<T>) => {
    try {
      return await work(run)
    } catch (error) {
      await undo(client)
      throw error
    }
  }
  return { run, transaction, end: async () => {} }
}

/** Undoes all changes since the savepoint. The savepoint stays unless `release` ends it. */
async function undo(client: Client, release = ''): Promise<void> {
  try {
    await client.query(`rollback to savepoint sluice; ${release}`)
  } catch {
    // The connection is gone, and the transaction with it; the caller already has the first error.
  }
}

/**
 * Only a transaction that is open and has not failed takes a savepoint. The transaction commits durably from here on, unless
 * this savepoint is undone.
 */
async function openSavepoint(client: Client): Promise<void> {
  try {
    await client.query(`savepoint sluice; ${commitDurably}`)
  } catch (error) {
    const state = stateOf(error)
    if (state === '25P01') {
      throw new NotEnlistableError(
        'The connection has no transaction open: run `begin` on it first. (A pool gives each statement to any connection.)',
        { cause: error },
      )
    }
    if (state === '25P02') {
      throw new NotEnlistableError('The transaction has failed already: roll it back.', { cause: error })
    }
    throw explain(error)
  }
}

async function appliedIn(run: Run): Promise<unknown> {
  try {
    const [row] = await run<{ applied: string }>(selectMigrations)
    return row?.applied
  } catch (error) {
    if (stateOf(error) !== '42P01') throw error
    throw new NotEnlistableError(
      "The connection does not see the store's tables: it is on another database or schema.",
      {
        cause: error,
      },
    )
  }
}

function isClient(connection: object): connection is Client {
  return 'query' in connection && typeof connection.query === 'function'
}
