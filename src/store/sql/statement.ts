import type { Page, PageRequest } from '../store.ts'
/** A value that a statement is given; JSON is given as text. Lists are for `dialect.among` and `dialect.rowsOf`. */
export type Value = number | string | boolean | null | Uint8Array | List | SealedValue
/** A value of a sealed column, as `sealValue` made it: sealed text, or an empty value as it is. */
export interface SealedValue {
  readonly sealed: unknown
}
export type List = readonly number[] | readonly string[] | readonly object[]
export type Values = Readonly<Record<string, Value>>

/** Columns that SQLite stores in another form than the rows of `Row`, which are as Postgres has them. */
export interface Shape<Row> {
  /** Text that holds JSON. */
  readonly json?: readonly (keyof Row & string)[]
  /** 0 or 1. */
  readonly flags?: readonly (keyof Row & string)[]
  /** Sealed text, or JSON that was never sealed. */
  readonly sealed?: readonly (keyof Row & string)[]
}

/** One SQL statement for both databases. Its rows look like `Row`: the SQL says so. */
export interface Statement<Row = unknown> {
  /** Unique per database. Postgres prepares the statement under it, once per connection. */
  readonly name: string
  readonly shape: Shape<Row>
  /** The text for one database, with the parameters in the order in which the database numbers them. */
  in(dialect: DialectName): Compiled
}

interface Compiled {
  readonly text: string
  readonly parameters: readonly string[]
}

type TextOf = (dialect: DialectName) => string

const registry: Readonly<Record<DialectName, Map<string, TextOf>>> = { sqlite: new Map(), postgres: new Map() }

/** Registers a statement under a name that no other one of the database has. */
export function register(name: string, dialect: DialectName, textOf: TextOf): void {
  if (registry[dialect].has(name)) throw new Error(`there are two statements named ${name} for ${dialect}`)
  registry[dialect].set(name, textOf)
}

/** Every registered statement of a database, by name: for tests of query plans. Modules register when they are loaded. */
export function registeredStatements(dialect: DialectName): Map<string, string> {
  return new Map([...registry[dialect]].map(([name, textOf]) => [name, textOf(dialect)]))
}

/**
 * Makes and registers a statement. Parameters are written `:name`; `:now` is the store's clock and needs no value. A text
 * that differs between the databases is a function of the dialect.
 */
export function statement<Row = unknown>(
  name: string,
  text: string | ((dialect: Dialect) => string),
  shape: Shape<Row> = {},
): Statement<Row> {
  const compiled = new Map<DialectName, Compiled>()
  const made: Statement<Row> = {
    name,
    shape,
    in(dialectName) {
      const found = compiled.get(dialectName)
      if (found) return found
      const dialect = dialects[dialectName]
      const result = dialect.compile(typeof text === 'string' ? text : text(dialect))
      compiled.set(dialectName, result)
      return result
    },
  }
  for (const dialect of ['sqlite', 'postgres'] as const) register(name, dialect, () => made.in(dialect).text)
  return made
}

/** A statement in both orders of a key. */
export type InBothOrders<Row> = Readonly<Record<PageRequest['order'], Statement<Row>>>

/** The same statement in both orders of a key; `name` and `name-down` are the names. */
export function inBothOrders<Row>(
  name: string,
  text: (beyond: '>' | '<', direction: '' | 'desc', dialect: Dialect) => string,
  shape?: Shape<Row>,
): InBothOrders<Row> {
  return {
    ascending: statement<Row>(name, (dialect) => text('>', '', dialect), shape),
    descending: statement<Row>(`${name}-down`, (dialect) => text('<', 'desc', dialect), shape),
  }
}

/** A page from rows that were read with a limit of one more than asked, which shows whether there are more. */
export function toPage<Item>(rows: readonly Item[], limit: number): Page<Item> {
  return { items: rows.slice(0, limit), done: rows.length <= limit }
}

/** A key in front of all keys that a list in this order begins with. */
export function listStart(order: PageRequest['order']): number {
  return order === 'ascending' ? -1 : Number.MAX_SAFE_INTEGER
}

/** The value of JSON text that may be missing. */
export function fromJson<T>(text: string | null): T | null {
  return text === null ? null : JSON.parse(text)
}

/** JSON text of a value that may be missing. */
export function toJson(value: unknown): string | null {
  return value === null ? null : JSON.stringify(value)
}

/** `:column` for each of these columns. */
export function parameters(columns: readonly string[]): string {
  return columns.map((column) => `:${column}`).join(', ')
}

/** `column = :column` for each of these columns. */
export function assignments(columns: readonly string[]): string {
  return columns.map((column) => `${column} = :${column}`).join(', ')
}

/** A list of columns whose rows have the fields of `Row`: `created_at as "createdAt"`. */
export function columnsOf<Row>(columns: Readonly<Record<keyof Row & string, string>>): string {
  const list = Object.entries<string>(columns)
  return list.map(([field, column]) => (field === column ? column : `${column} as "${field}"`)).join(', ')
}

/** The values of some of an item's columns. Lists and records become JSON text. */
export function valuesOf<Item>(item: Item, columns: Readonly<Partial<Record<keyof Item & string, string>>>): Values {
  const list = Object.entries(columns) as [keyof Item, string][]
  return Object.fromEntries(list.map(([field, column]) => [column, toValue(item[field])]))
}

function toValue(value: unknown): Value {
  const isStructured = typeof value === 'object' && value !== null && !(value instanceof Uint8Array)
  return isStructured ? JSON.stringify(value) : (value as Value)
}

type DialectName = 'sqlite' | 'postgres'
/** Postgres's advisory locks are numbers shared by all programs in a database; the first two spell `sluice`. */
export const locks = {
  migrate: 0x736c7569,
  partitions: 0x6365,
  audit: 0x61756469,
  history: 0x68697374,
  signing: 0x7369676e,
} as const
type ColumnType = 'bigint' | 'integer' | 'text'

/**
 * How SQL is written for one database, where the two differ. Everything that both understand is written plainly:
 * `cast(:x as text)` for a parameter whose type Postgres cannot infer, `returning`, `on conflict`, `true` and `not`,
 * `column ->> 'field'`, `filter (where …)`.
 */
export interface Dialect {
  readonly name: DialectName
  /** Numbers the parameters, and supplies `:now`. */
  compile(text: string): Compiled
  greatest(...values: string[]): string
  least(...values: string[]): string
  /** Locks the selected rows until the transaction ends. SQLite has one writer, so there is nothing to lock. */
  readonly forUpdate: string
  /** As `forUpdate`, but others may lock the rows like this at the same time. */
  readonly forShare: string
  /** As `forUpdate`, passing over rows that are locked already. */
  readonly forUpdateSkipLocked: string
  /** Whether a column that holds a list of integers has a value. */
  has(column: string, value: string): string
  /** A column that holds a list of integers, with one more value. */
  append(column: string, value: string): string
  /** How many values a column that holds a list has. */
  lengthOf(column: string): string
  /** A parameter that is bytes or null, where its type cannot be inferred. */
  bytes(parameter: string): string
  /** A statement that waits until no other transaction has the lock. On SQLite no two transactions write at once. */
  lock(name: keyof typeof locks): string
  /** Text as the value of a JSON column. */
  json(text: string): string
  /** Whether a column's value is in a list parameter. */
  among(column: string, parameter: string, type: ColumnType): string
  /**
   * Joins the one row of a table that meets a condition, whose columns are qualified by the table's name. On Postgres the
   * limit keeps the planner to one probe per row, whatever the statistics say.
   */
  probe(table: string, condition: string, lock?: string): string
  /** As `probe`, for all rows that meet the condition: one range of an index for each row that is joined. */
  ranges(table: string, condition: string): string
  /**
   * Deletes the rows of a table that a query finds, and returns one row for each. `key` lists the columns of the primary
   * key; `found` is what follows `select … from table`.
   */
  deleteFound(table: string, key: string, found: string): string
  /** The condition that a row of a table is among those that a list names by these fields. `condition` is as for `probe`. */
  listed(table: string, parameter: string, fields: Readonly<Record<string, ColumnType>>, condition: string): string
  /** Deletes the rows of a table that a list names, and returns these fields of each. The condition is as for `probe`. */
  deleteListed(
    table: string,
    parameter: string,
    fields: Readonly<Record<string, ColumnType>>,
    condition: string,
  ): string
  /** A table of the objects in a list parameter: one column per field named, and `place`, which counts from 1. */
  rowsOf(parameter: string, alias: string, fields: Readonly<Record<string, ColumnType>>): string
}

/** `:name`, or `:list.field` for one field of every object in a list; but not the type of a cast. */
const parameter = /(?<![:\w]):([a-z]\w*(?:\.\w+)?)/gi

const sqlite: Dialect = {
  name: 'sqlite',
  // SQLite plans a statement again at each use whose limit is a bare parameter, because its value may change the plan. The
  // value of an expression has no part in the plan. The simulation takes a fifth less processor time with it.
  compile: (text) => ({
    text: text.replaceAll(/\blimit :/g, 'limit +:'),
    parameters: [...new Set([...text.matchAll(parameter)].map(([, name]) => name as string))],
  }),
  greatest: (...values) => `max(${values.join(', ')})`,
  least: (...values) => `min(${values.join(', ')})`,
  forUpdate: '',
  forShare: '',
  forUpdateSkipLocked: '',
  has: (column, value) => `exists (select 1 from json_each(${column}) where value = ${value})`,
  append: (column, value) => `json_insert(${column}, '$[#]', ${value})`,
  lengthOf: (column) => `json_array_length(${column})`,
  bytes: (parameter) => parameter,
  lock: () => 'select 1',
  json: (text) => text,
  among: (column, list) => `${column} in (select value from json_each(${list}))`,
  probe: (table, condition) => `join ${table} on ${condition}`,
  ranges: (table, condition) => `join ${table} on ${condition}`,
  deleteFound: (table, key, found) =>
    `delete from ${table} where (${key}) in (select ${key} from ${table} ${found}) returning 1`,
  listed(_table, list, fields) {
    const names = Object.keys(fields)
    const values = names.map((field) => `value ->> '${field}'`).join(', ')
    return `(${names.join(', ')}) in (select ${values} from json_each(${list}))`
  },
  deleteListed: (table, list, fields, condition) => `
    delete from ${table} where ${sqlite.listed(table, list, fields, condition)} returning ${Object.keys(fields).join(', ')}`,
  rowsOf(list, alias, fields) {
    const columns = Object.keys(fields).map((field) => `value ->> '${field}' as ${field}`)
    return `(select ${columns.join(', ')}, key + 1 as place from json_each(${list})) as ${alias}`
  },
}

/** Read once per statement, so that it is the same throughout and can bound the range of an index. */
const statementNow = '(extract(epoch from statement_timestamp()) * 1000)::bigint'

const postgres: Dialect = {
  name: 'postgres',
  compile(text) {
    const parameters: string[] = []
    const numbered = text.replaceAll(parameter, (_, name: string) => {
      if (name === 'now') return statementNow
      if (!parameters.includes(name)) parameters.push(name)
      return `$${parameters.indexOf(name) + 1}`
    })
    return { text: numbered, parameters }
  },
  greatest: (...values) => `greatest(${values.join(', ')})`,
  least: (...values) => `least(${values.join(', ')})`,
  forUpdate: 'for update',
  forShare: 'for share',
  forUpdateSkipLocked: 'for update skip locked',
  has: (column, value) => `${value} = any (${column})`,
  append: (column, value) => `array_append(${column}, ${value}::bigint)`,
  lengthOf: (column) => `cardinality(${column})`,
  bytes: (parameter) => `${parameter}::bytea`,
  lock: (name) => `select pg_advisory_xact_lock(${locks[name]})`,
  json: (text) => `${text}::json`,
  among: (column, list, type) => `${column} = any (${list}::${type}[])`,
  probe: (table, condition, lock = '') =>
    `cross join lateral (select * from ${table} where ${condition} limit 1 ${lock}) as ${table}`,
  // The offset keeps the planner from driving the join from the table, as the limit does above.
  ranges: (table, condition) => `cross join lateral (select * from ${table} where ${condition} offset 0) as ${table}`,
  // Both by place: a delete that joins may be driven from all of the table.
  deleteFound: (table, _key, found) =>
    `delete from ${table} where ctid = any (array (select ctid from ${table} ${found})) returning 1`,
  listed: (table, list, fields, condition) => `
    ctid = any (array (
      select found.place from ${postgres.rowsOf(list, 'listed', fields)}
       cross join lateral (select ctid as place from ${table} where ${condition} limit 1) as found))`,
  deleteListed: (table, list, fields, condition) => `
    delete from ${table} where ${postgres.listed(table, list, fields, condition)}
    returning ${Object.keys(fields).join(', ')}`,
  rowsOf(list, alias, fields) {
    const arrays = Object.entries(fields).map(([field, type]) => `${list}.${field}::${type}[]`)
    return `unnest(${arrays.join(', ')}) with ordinality as ${alias} (${Object.keys(fields).join(', ')}, place)`
  },
}

const dialects: Readonly<Record<DialectName, Dialect>> = { sqlite, postgres }
