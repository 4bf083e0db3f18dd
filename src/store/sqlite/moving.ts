import type { DatabaseSync, SQLOutputValue, StatementSync } from 'node:sqlite'
import { leftBehind, type MovedTable, quoted, type RowText } from '../moving.ts'
import { sealedWith } from '../vault.ts'

const selectTables = `
  select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name`

/** Bytes of one page of rows, roughly. */
const pageBytes = 4 * 1024 * 1024

/** The tables of a file whose rows are moved, and that of the hashes. */
export function tablesOf(db: DatabaseSync): string[] {
  const rows = db.prepare(selectTables).all() as { name: string }[]
  return [...rows.map(({ name }) => name).filter((name) => !leftBehind.has(name)), 'idempotency']
}

/**
 * Makes the table of hashes that Postgres has, for this connection: the newest row of each hash, unless it was freed or had expired when
 * the move began. The file keeps rows in the order in which hashes were taken (taken-hashes.ts).
 */
export function gatherHashes(db: DatabaseSync, begunAt: number): void {
  db.exec(`
    create temp table idempotency (
      hash text primary key, fingerprint text, expires_at integer, message integer, status integer, answer blob
    ) without rowid`)
  db.prepare(`
    insert into temp.idempotency
    select hash, fingerprint, expires_at, message, status, answer
      from (select *, row_number() over (partition by hash order by day desc, seq desc) as place from taken_hash)
     where place = 1 and expires_at > ?`).run(begunAt)
}

/** The columns of a table. */
export function columnsOf(db: DatabaseSync, table: string): ReadonlySet<string> {
  const rows = db.prepare('select name from pragma_table_info(?)').all(table) as { name: string }[]
  return new Set(rows.map(({ name }) => name))
}

export function countRows(db: DatabaseSync, table: string): number {
  return Number(db.prepare(`select count(*) as count from ${quoted(table)}`).get()?.count)
}

/** The keys of messages at both ends of a table, by its column that names them; undefined when it is empty. */
export function keyRange(db: DatabaseSync, table: string, column: string): readonly [number, number] | undefined {
  const row = db.prepare(`select min(${column}) as first, max(${column}) as last from ${quoted(table)}`).get()
  return row?.first == null ? undefined : [Number(row.first), Number(row.last)]
}

export function hasKeysWithin(db: DatabaseSync, table: string, column: string, from: number, to: number): boolean {
  const found = db.prepare(`select 1 from ${quoted(table)} where ${column} >= ? and ${column} < ? limit 1`)
  return found.get(from, to) !== undefined
}

interface Page {
  readonly rows: readonly RowText[]
  /** The place behind the last row. */
  readonly cursor: string | null
  readonly done: boolean
}

/** Reads a table in the order of its primary key, a page at a time. */
export class TableReader {
  readonly #next: StatementSync
  readonly #first: StatementSync
  readonly #table: MovedTable
  readonly #keyAt: readonly number[]
  readonly #limit: number

  constructor(db: DatabaseSync, table: MovedTable, limit: number) {
    this.#table = table
    this.#limit = limit
    const info = db.prepare('select name, pk from pragma_table_info(?)').all(table.name) as {
      name: string
      pk: number
    }[]
    const key = info.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk)
    // The key comes behind the columns: some of it may be no column that is moved.
    this.#keyAt = key.map((_, i) => table.columns.length + i)
    const names = key.map(({ name }) => quoted(name)).join(', ')
    const columns = [...table.columns, ...key].map(({ name }) => quoted(name)).join(', ')
    const rest = `order by ${names} limit ${limit}`
    this.#first = db.prepare(`select ${columns} from ${quoted(table.name)} ${rest}`)
    const places = key.map(() => '?').join(', ')
    this.#next = db.prepare(`select ${columns} from ${quoted(table.name)} where (${names}) > (${places}) ${rest}`)
    for (const statement of [this.#first, this.#next]) {
      statement.setReturnArrays(true)
      // Numbers are text on their way, exact whatever their size.
      statement.setReadBigInts(true)
    }
  }

  read(cursor: string | null): Page {
    const values = cursor === null ? [] : (JSON.parse(cursor) as (string | { readonly n: string })[])
    const bound = values.map((value) => (typeof value === 'string' ? value : BigInt(value.n)))
    const found = (cursor === null ? this.#first : this.#next).iterate(...bound) as unknown as Iterable<
      SQLOutputValue[]
    >
    const rows: RowText[] = []
    let [bytes, read, last] = [0, 0, undefined as SQLOutputValue[] | undefined]
    for (const row of found) {
      const text = this.#table.columns.map(({ type }, i) => textOf(row[i] as SQLOutputValue, type))
      rows.push(text)
      read++
      last = row
      for (const value of text) bytes += value?.length ?? 0
      if (bytes > pageBytes) return { rows, cursor: this.#cursorOf(row), done: false }
    }
    return { rows, cursor: last === undefined ? cursor : this.#cursorOf(last), done: read < this.#limit }
  }

  #cursorOf(row: readonly SQLOutputValue[]): string {
    return JSON.stringify(
      this.#keyAt.map((at) => {
        const value = row[at]
        return typeof value === 'bigint' ? { n: String(value) } : String(value)
      }),
    )
  }
}

/** A value of the file as Postgres writes one of this type. */
function textOf(value: SQLOutputValue, type: string): string | null {
  if (value === null) return null
  if (type === 'boolean') return value === 0n ? 'false' : 'true'
  if (value instanceof Uint8Array) {
    const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    return type === 'bytea' ? `\\x${bytes.toString('hex')}` : storable(bytes.toString())
  }
  if (type === 'json') return jsonOf(String(value))
  if (type.endsWith('[]')) return `{${String(value).slice(1, -1).replaceAll(/\s/g, '')}}`
  return typeof value === 'string' ? storable(value) : String(value)
}

/** A sealed value is plain text in the file, and a JSON string in Postgres. */
function jsonOf(text: string): string {
  return sealedWith(text) === undefined ? text : JSON.stringify(text)
}

/** Postgres takes every character but one. */
function storable(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '\ufffd') : text
}
