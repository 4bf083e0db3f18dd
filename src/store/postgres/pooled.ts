import pg from 'pg'
import { PoolerError } from './trouble.ts'

/**
 * A pooler gives the connection of one client to the next, between transactions or whenever it likes. So behind one nothing is
 * left to a session: the settings of a transaction are part of the transaction, and travel with its first statement.
 */

/** Settings by name; a value is an SQL expression. */
type Settings = readonly (readonly [name: string, value: string])[]

/** A statement that changes settings for the transaction that is open, and answers no row. */
export function settingLocally(settings: Settings): string {
  return `select 1 where ${settings.map(([name, value]) => `set_config('${name}', ${value}, true) is null`).join(' or ')}`
}

/** How a pooler treats prepared statements: as its clients name them for themselves, or not at all. */
export type Naming = 'named' | 'unnamed'

/** Only this statement can have this text. Poolers that know prepared statements give them names of their own. */
const probeName = 'sluice-probe'
const probe = `select name from pg_prepared_statements where statement like '%sluice naming probe%'`

/**
 * Learns how the pooler treats prepared statements. Throws `PoolerError` when it has no transactions of several statements.
 * Without a word from the pooler, a statement under its own name at the server belongs to all clients: another version of
 * Sluice may have prepared another text under it.
 */
export async function namingOf(client: pg.ClientBase): Promise<Naming> {
  try {
    await client.query('begin')
  } catch (error) {
    if (/statement pooling/.test((error as Error).message)) throw new PoolerError()
    throw error
  }
  try {
    const { rows } = await client.query<{ name: string }>({ name: probeName, text: probe, values: [] })
    return rows.length > 0 && rows.every(({ name }) => name !== probeName) ? 'named' : 'unnamed'
  } catch (error) {
    if ((error as { code?: string }).code === alreadyExists) return 'unnamed'
    throw error
  } finally {
    await client.query('rollback')
  }
}

const alreadyExists = '42P05'

/** The part of the driver's connection that a statement is sent by. */
interface Wire {
  readonly stream: { cork?(): void; uncork?(): void }
  readonly parsedStatements: Record<string, string | undefined>
  parse(statement: { readonly text: string; readonly name: string }): void
  bind(portal: { readonly statement: string; readonly values: readonly unknown[] }): void
  execute(portal: object): void
  close(what: { readonly type: 'S'; readonly name: string }): void
}

/**
 * One statement in a transaction of its own that begins with settings. Both go in one message to the server, which has one
 * transaction for all up to the end of the message: no round trip more than for the statement alone.
 */
class InOneTransaction extends pg.Query {
  readonly #settings: string
  readonly #name: string
  #wire: Wire | undefined
  #isNew = false

  constructor(settings: string, name: string, text: string, values: unknown[]) {
    // Without a name the driver would send a statement without values in another way.
    super({ ...(name === '' ? {} : { name }), text, values, queryMode: 'extended' } as pg.QueryConfig)
    this.#settings = settings
    this.#name = name
  }

  override submit = (connection: pg.Connection): void => {
    const wire = connection as unknown as Wire
    this.#wire = wire
    this.#isNew = this.#name !== '' && wire.parsedStatements[this.#name] === undefined
    wire.stream.cork?.()
    try {
      wire.parse({ text: this.#settings, name: '' })
      wire.bind({ statement: '', values: [] })
      wire.execute({})
      // Also after a failure, which leaves open whether the pooler took the statement in.
      if (this.#isNew) wire.close({ type: 'S', name: this.#name })
      return pg.Query.prototype.submit.call(this, connection)
    } finally {
      wire.stream.uncork?.()
    }
  }

  /** The driver takes the answer about the settings for one about the statement. */
  forget(): void {
    if (this.#isNew && this.#wire !== undefined) delete this.#wire.parsedStatements[this.#name]
  }
}

/** Runs a statement in a transaction of its own that begins with settings. */
export function runWith(
  client: pg.ClientBase,
  settings: string,
  { name, text }: { readonly name: string; readonly text: string },
  values: unknown[],
): Promise<unknown[]> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown[]>()
  const query = new InOneTransaction(settings, name, text, values)
  const whenDone = (error: Error | null, results: pg.QueryResult[]) => {
    if (error === null) return resolve(results.at(-1)?.rows ?? [])
    query.forget()
    reject(error)
  }
  client.query(Object.assign(query, { callback: whenDone }))
  return promise
}
