import type { Class } from '../../domain/delivery.ts'
import { decodeKey } from '../../domain/ids.ts'
import { type Enlisted, type Enlisting, type Match, matchTries, NotEnlistableError } from '../enlisting.ts'
import type { Published } from '../store.ts'
import type { Database } from './database.ts'
import { intake } from './intake.ts'
import { LaneWakes } from './lane-wakes.ts'
import { clientConfig, type Run, type Sessions, type Statement } from './sessions.ts'
import { Signals } from './signals.ts'
import { explain, stateOf } from './trouble.ts'

/** As much of a `pg` client as is needed. Without a name, a statement leaves nothing behind on the connection. */
interface Client {
  query(config: string | ClientQuery): Promise<{ readonly rows: unknown[] }>
}

interface ClientQuery {
  readonly text: string
  readonly values: unknown[]
  readonly types: unknown
}

// Which migrations ran when, and in which table of which database: tells one database from another, a copy of it included,
// and whether its tables are the ones this store knows.
const selectMigrations: Statement = {
  name: 'migrations',
  text: `
    select concat_ws(' ', (select oid from pg_database where datname = current_database()), 'migration'::regclass::oid,
                     string_agg(version || '@' || applied_at, ' ' order by version)) as applied
      from migration`,
}
const selectApplication: Statement = {
  name: 'enlisted-application',
  text: 'select key from application where key = $1 and id = $2 and deleted_at is null',
}
const selectApplicationByUid: Statement = {
  name: 'enlisted-application-by-uid',
  text: 'select key from application where uid = $1 and deleted_at is null',
}
// For this transaction only. A stronger setting (remote_apply) is the caller's choice and stays.
const commitDurably: Statement = {
  name: 'commit-durably',
  text: `
    select set_config('synchronous_commit', 'on', true)
     where current_setting('synchronous_commit') not in ('on', 'remote_apply')`,
}

/** Keeps what would be said about new rows until they are committed. */
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
}

/** Keeps the lanes to be woken until their rows are committed. */
class LaterWakes extends LaneWakes {
  readonly kept: (() => void)[] = []
  readonly #wakes: LaneWakes

  constructor({ relaxed, context, signals, wakes }: Database) {
    super(relaxed, context, signals)
    this.#wakes = wakes
  }

  override wish(endpoints: Iterable<number>, dueAt: number, areFresh: boolean): void {
    const list = [...endpoints]
    this.kept.push(() => this.#wakes.wish(list, dueAt, areFresh))
  }
}

/** Publishes within the transactions of others on the same database. */
export function enlisting(database: Database, url: string): Enlisting {
  const { types } = clientConfig(url)
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

  async function publish(run: Run, ref: string, match: Match): Promise<Enlisted | undefined> {
    const key = decodeKey('app', ref)
    const found = await (key === undefined
      ? run<{ key: number }>(selectApplicationByUid, [ref])
      : run<{ key: number }>(selectApplication, [key, ref]))
    const app = found[0]?.key
    if (app === undefined) return undefined
    const signals = new LaterSignals(database)
    const wakes = new LaterWakes(database)
    const within = intake({ ...database, durable: sessionsOver(run), signals, wakes })
    let published: Published = { state: 'stale' }
    for (let tries = 0; tries < matchTries && published.state === 'stale'; tries++) {
      const subscriptions = await within.subscriptions(app)
      if (subscriptions === undefined) return undefined
      published = ((await within.publish([match(app, subscriptions)])) as [Published])[0]
    }
    return {
      published,
      committed() {
        for (const say of [...wakes.kept.splice(0), ...signals.kept.splice(0)]) say()
      },
    }
  }

  return {
    async publishWithin(connection, ref, match) {
      if (!isClient(connection)) {
        throw new NotEnlistableError('The store is a Postgres database: publish with a client of the package pg.')
      }
      await openSavepoint(connection)
      const run: Run = async <Row>({ text }: Statement, values: readonly unknown[] = []) => {
        try {
          return (await connection.query({ text, values: [...values], types })).rows as Row[]
        } catch (error) {
          // Whoever tries again, with another key, can: the transaction is usable up to the savepoint.
          await connection.query('rollback to savepoint sluice')
          throw explain(error)
        }
      }
      try {
        await assertSameDatabase(run)
        await run(commitDurably)
        const enlisted = await publish(run, ref, match)
        await connection.query('release savepoint sluice')
        return enlisted
      } catch (error) {
        await undo(connection)
        throw explain(error)
      }
    },
  }
}

function sessionsOver(run: Run): Sessions {
  return { run, transaction: (work) => work(run), end: async () => {} }
}

/** Only a transaction that is open and has not failed takes a savepoint. */
async function openSavepoint(client: Client): Promise<void> {
  try {
    await client.query('savepoint sluice')
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

async function undo(client: Client): Promise<void> {
  try {
    await client.query('rollback to savepoint sluice')
    await client.query('release savepoint sluice')
  } catch {
    // The connection is gone, and the transaction with it; the caller already has the first error.
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
