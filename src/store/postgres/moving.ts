import type pg from 'pg'
import { type MovedTable, quoted, type RowText, sumOfHashes, type TableProgress } from '../moving.ts'
import { dayMs, partitionedColumns, partitionSteps } from './partitions.ts'
import { texts } from './sessions.ts'

// How far the rows of another store have come is kept beside them, in the transaction of each page.

const createProgress = `
  create table if not exists sluice_move (
    table_name text primary key, -- empty for the move itself, whose id is its cursor
    cursor text,
    rows bigint not null default 0,
    sum numeric not null default 0,
    done boolean not null default false
  )`
const hasProgress = `select to_regclass('sluice_move') is not null as found`
const selectProgress = 'select table_name, cursor, rows::integer as rows, sum::text as sum, done from sluice_move'
const selectColumns = `
  select c.relname as "table", a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
         a.attidentity <> '' as identity
    from pg_class c join pg_attribute a on a.attrelid = c.oid
   where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
     and a.attnum > 0 and not a.attisdropped
   order by c.relname, a.attnum`
const saveProgress = `
  insert into sluice_move (table_name, cursor, rows, sum, done) values ($1, $2, $3, $4, $5)
  on conflict (table_name) do update
    set cursor = excluded.cursor, rows = excluded.rows, sum = excluded.sum, done = excluded.done`

/** A move into the database was begun and has not ended: some of the rows are missing. */
export class MoveUnderWayError extends Error {
  override readonly name = 'MoveUnderWayError'

  constructor() {
    super(
      'a move into this database has not finished: run the same `sluice move` again, or begin with an empty database',
    )
  }
}

export async function assertNoMove(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ found: boolean }>(hasProgress)
  if (rows[0]?.found === true) throw new MoveUnderWayError()
}

/** The receiving end of a move. */
export class MoveTarget {
  readonly #client: pg.Client
  #columns = new Map<string, { name: string; type: string; identity: boolean }[]>()

  constructor(client: pg.Client) {
    this.#client = client
  }

  /** Prepares the database, or finds the progress of the same move. Throws when it holds anything else. */
  async begin(id: string, tables: readonly string[]): Promise<ReadonlyMap<string, TableProgress>> {
    const client = this.#client
    await client.query("set bytea_output = 'hex'; set statement_timeout = 0; set synchronous_commit = 'off'")
    const { rows } = await client.query<{ table: string; name: string; type: string; identity: boolean }>(selectColumns)
    this.#columns = Map.groupBy(rows, ({ table }) => table)
    const known = await client.query<{ found: boolean }>(hasProgress)
    if (known.rows[0]?.found !== true) {
      await this.#assertEmpty(tables)
      await client.query('begin')
      await client.query(createProgress)
      await client.query(saveProgress, ['', id, 0, '0', false])
      // The other store's own row takes its place.
      await client.query('delete from application where key = 0')
      await client.query('commit')
    }
    const progress = await client.query<{
      table_name: string
      cursor: string | null
      rows: number
      sum: string
      done: boolean
    }>(selectProgress)
    const own = progress.rows.find(({ table_name }) => table_name === '')
    if (own?.cursor !== id)
      throw new Error('another file is being moved into this database; begin with an empty database')
    return new Map(progress.rows.map(({ table_name, sum, ...row }) => [table_name, { ...row, sum: BigInt(sum) }]))
  }

  /** A table with those of its columns that the file has; the others are for a transaction's own use, and empty between two. */
  table(name: string, inFile: ReadonlySet<string>): MovedTable {
    const columns = (this.#columns.get(name) ?? []).filter((column) => inFile.has(column.name))
    if (columns.length < inFile.size) throw new Error(`the table ${name} of the file has columns that Postgres lacks`)
    return { name, columns }
  }

  /** Makes the partitions of these days, before there are rows of them. */
  async makeDays(days: readonly number[]): Promise<void> {
    for (const day of days) {
      for (const { name, statements } of partitionSteps(day)) {
        const { rows } = await this.#client.query('select to_regclass($1) is not null as found', [name])
        if (rows[0]?.found !== true) for (const statement of statements) await this.#client.query(statement)
      }
    }
  }

  /** Stores a page of rows, and how far the table has come with it. */
  async store(table: MovedTable, rows: readonly RowText[], progress: TableProgress): Promise<void> {
    const client = this.#client
    await client.query('begin')
    if (rows.length > 0) {
      const names = table.columns.map(({ name }) => quoted(name)).join(', ')
      const values = table.columns.map(({ name, type }) => `r.${quoted(name)}::${type}`).join(', ')
      const lists = table.columns.map((_, i) => `$${i + 1}::text[]`).join(', ')
      await client.query({
        name: `move ${table.name}`,
        text: `insert into ${quoted(table.name)} (${names}) overriding system value
               select ${values} from unnest(${lists}) as r (${names})`,
        values: table.columns.map((_, i) => texts(rows.map((row) => row[i] ?? null))),
      })
    }
    const { cursor, done } = progress
    await client.query(saveProgress, [table.name, cursor, progress.rows, String(progress.sum), done])
    await client.query('commit')
  }

  /** The number of rows that the table has now, and the sum of their hashes. */
  async sumOf(table: MovedTable): Promise<{ readonly rows: number; readonly sum: bigint }> {
    const { rows } = await this.#client.query<{ rows: string; sum: string }>(sumOfHashes(table))
    return { rows: Number(rows[0]?.rows), sum: BigInt(rows[0]?.sum ?? '0') }
  }

  /** Ends the move: numbers go on behind those that came, the planner knows the tables, and everything is on the disk. */
  async finish(): Promise<void> {
    for (const [table, columns] of this.#columns) {
      const own = columns.find(({ identity }) => identity)
      if (own === undefined || table === 'worker') continue
      const sequence = `pg_get_serial_sequence('${table}', '${own.name}')`
      await this.#client.query(
        `select setval(${sequence}, greatest(max(${quoted(own.name)}), 1), max(${quoted(own.name)}) is not null) from ${quoted(table)}`,
      )
    }
    await this.#client.query('analyze')
    await this.#client.query("set synchronous_commit = 'on'")
    // Durable, and with it every page before.
    await this.#client.query(saveProgress, ['-', null, 0, '0', true])
  }

  /** Lets the database be used, now that the file cannot be. False when this move has not brought it here, or ended before. */
  async end(id: string): Promise<boolean> {
    const known = await this.#client.query<{ found: boolean }>(hasProgress)
    if (known.rows[0]?.found !== true) return false
    const own = await this.#client.query("select from sluice_move where table_name = '' and cursor = $1", [id])
    if (own.rows.length === 0) return false
    await this.#client.query('drop table sluice_move')
    return true
  }

  async #assertEmpty(tables: readonly string[]): Promise<void> {
    for (const name of tables) {
      const own = name === 'application' ? 'where key <> 0' : ''
      const { rows } = await this.#client.query(`select exists (select from ${quoted(name)} ${own}) as found`)
      if (rows[0]?.found === true) throw new Error(`the database is not empty: its table ${name} has rows`)
    }
  }
}

export { dayMs, partitionedColumns }
