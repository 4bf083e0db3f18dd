import type { EpochMs } from '../../domain/clock.ts'
import type { Class } from '../../domain/delivery.ts'
import { type Identity, identityTries, type Prefix } from '../../domain/ids.ts'
import type { StoreContext } from '../store.ts'
import type { Statement, Values } from './statement.ts'

// The port between methods that are written once (this folder) and the two databases (sqlite/port.ts, postgres/port.ts).
// docs/contributing/store.md describes it.

/**
 * Work on the store that ends with a `T`. Postgres yields a promise for every statement and is driven by
 * `finishLater`; SQLite yields nothing and is driven by `finishNow`, so that no other caller gets in between two
 * statements of a transaction on its one connection.
 */
export type Work<T> = Generator<Promise<unknown>, T, unknown>

/** The methods of `T` as work: the same arguments, the bare answer. */
export type Methods<T> = {
  [K in keyof T]: T[K] extends (...args: infer Args) => Promise<infer Result> ? (...args: Args) => Work<Result> : never
}

/** Runs statements. */
export interface Sql {
  /** All rows of a statement. */
  all<Row>(statement: Statement<Row>, values?: Values): Work<Row[]>
  /** The first row of a statement. */
  first<Row>(statement: Statement<Row>, values?: Values): Work<Row | undefined>
  /** How many rows a statement returns. */
  count<Row>(statement: Statement<Row>, values?: Values): Work<number>
  /** Whether a statement returns a row. */
  any<Row>(statement: Statement<Row>, values?: Values): Work<boolean>
  /** Runs a statement for its effect. */
  run<Row>(statement: Statement<Row>, values?: Values): Work<void>
  /** The instant by the store's clock, as `:now` in a statement. */
  now(): Work<EpochMs>
}

/** One transaction. It commits when its work ends and leaves nothing behind when its work throws. */
export interface Transaction extends Sql {
  /** A new key and the id made from it. The key may be taken: see `insertNew`. */
  newIdentity(prefix: Prefix): Work<Identity>
  /** Makes the next identities from another series of keys. */
  changeKeySeries(): void
  /**
   * Has the lane of an endpoint claimed as soon as its queue and its holds allow, unless a worker owns it. On Postgres the
   * lane is woken after the commit: rows that were published meanwhile are then seen.
   */
  wakeLane(endpoint: number): Work<void>
  /** Signals, after the commit, that these endpoints' queues got rows of a class, and wakes the lanes that are unowned. */
  queued(endpoints: readonly number[], itsClass: Class): Work<void>
  /** Signals all workers, after the commit, that these messages must not be sent from memory any more. */
  expunged(messages: readonly number[]): Work<void>
  /** Signals, after the commit, that lanes have become claimable. */
  lanesFreed(): Work<void>
  /** Signals workers, after the commit, that others share the lanes from now on. */
  workersChanged(): Work<void>
  /** Signals workers, after the commit, that there is a task to take. */
  taskAdded(): Work<void>
  /** Signals, after the commit, that there are rows in the inbox. */
  inboxFilled(): Work<void>
  /** Signals all workers, after the commit, that these endpoints' settings changed; without a list, any endpoint's. */
  settingsChanged(endpoints?: readonly number[]): Work<void>
}

/** A database, as the methods of this folder see it. Outside of a transaction each statement is one of its own. */
export interface Port extends Sql {
  readonly context: StoreContext
  /** Whether no transaction that writes runs beside another, as on SQLite. */
  readonly hasOneWriter: boolean
  /** A transaction that survives a power cut once it is committed. */
  transaction<T>(work: (sql: Transaction) => Work<T>): Work<T>
  /** As `transaction`. It overwrites what it erases, so that neither the file nor its log keeps the bytes. */
  erase<T>(work: (sql: Transaction) => Work<T>): Work<T>
  /** As `Sql` and `transaction`, for work that is done again when a crash of the database server undoes it. */
  readonly relaxed: Sql & Pick<Port, 'transaction'>
  /** Asks the owners of these lanes for snapshots; answers whether any worker can hear the question. */
  askOwners(endpoints: readonly number[]): Work<boolean>
  /** Whether an error says that a uid is taken. */
  isUidTaken(error: unknown): boolean
}

/** All that runs statements, by the one way to read all rows of a statement. */
export function sqlBy(all: Sql['all'], now: Sql['now']): Sql {
  return {
    all,
    now,
    *first(statement, values) {
      return (yield* all(statement, values))[0]
    },
    *count(statement, values) {
      return (yield* all(statement, values)).length
    },
    *any(statement, values) {
      return (yield* all(statement, values)).length > 0
    },
    *run(statement, values) {
      yield* all(statement, values)
    },
  }
}

/** Drives work on SQLite, which must not wait for anything. */
export function finishNow<T>(work: Work<T>): T {
  const step = work.next()
  if (step.done) return step.value
  throw new Error('work on SQLite waited, which would let another caller into its transaction')
}

/** Drives work on Postgres, waiting for each promise it yields. */
export async function finishLater<T>(work: Work<T>): Promise<T> {
  let step = work.next()
  while (!step.done) {
    let answer: unknown
    try {
      answer = await step.value
    } catch (error) {
      step = work.throw(error)
      continue
    }
    step = work.next(answer)
  }
  return step.value
}

/** Waits for a promise within work on Postgres. */
export function* waitFor<T>(promise: Promise<T>): Work<T> {
  return (yield promise) as T
}

/** Work that waits for nothing. */
// biome-ignore lint/correctness/useYield: it is a generator so that callers write the same as for work that waits.
export function* atOnce<T>(work: () => T): Work<T> {
  return work()
}

/**
 * Inserts one row under a new identity and answers what the statement returns. The statement says
 * `on conflict (key) do nothing returning …`: no row means that the key is taken.
 */
export function* insertNew<Row>(
  sql: Transaction,
  prefix: Prefix,
  insert: Statement<Row>,
  valuesFor: (identity: Identity) => Values,
): Work<Row> {
  for (let tries = 0; tries < identityTries; tries++) {
    const identity = yield* sql.newIdentity(prefix)
    const row = yield* sql.first(insert, { ...valuesFor(identity), key: identity.key, id: identity.id })
    if (row !== undefined) return row
    sql.changeKeySeries()
  }
  throw new Error(`no free ${prefix} key found in ${identityTries} tries`)
}
