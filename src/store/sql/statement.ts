import { type Dialect, type DialectName, dialects } from './dialect.ts'

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

export interface Compiled {
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

/** The same statement in both orders of a key; `name` and `name-down` are the names. */
export function inBothOrders<Row>(
  name: string,
  text: (beyond: '>' | '<', direction: '' | 'desc', dialect: Dialect) => string,
  shape?: Shape<Row>,
): Readonly<Record<'ascending' | 'descending', Statement<Row>>> {
  return {
    ascending: statement<Row>(name, (dialect) => text('>', '', dialect), shape),
    descending: statement<Row>(`${name}-down`, (dialect) => text('<', 'desc', dialect), shape),
  }
}

/** The value of JSON text that may be missing. */
export function fromJson<T>(text: string | null): T | null {
  return text === null ? null : JSON.parse(text)
}

/** JSON text of a value that may be missing. */
export function toJson(value: unknown): string | null {
  return value === null ? null : JSON.stringify(value)
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
