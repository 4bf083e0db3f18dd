import { either, type Fragment, fragment, type StatementPart } from './statement.ts'

// How SQL is written where the two databases differ. Everything that both understand is written plainly:
// `cast(:x as text)` for a parameter whose type Postgres cannot infer, `returning`, `on conflict`, `true` and `not`,
// `column ->> 'field'`, `filter (where …)`.

type ColumnType = 'bigint' | 'integer' | 'text'
/** The fields of the objects in a list parameter, with their types. */
type ColumnTypes = Readonly<Record<string, ColumnType>>

/** Postgres's advisory locks are numbers shared by all programs in a database; the first two spell `sluice`. */
export const locks = {
  migrate: 0x736c7569,
  partitions: 0x6365,
  audit: 0x61756469,
  history: 0x68697374,
  signing: 0x7369676e,
  worker: 0x776f726b,
} as const

/** When the Postgres server was started. Sessions of an earlier start say nothing about the workers of today. */
export const serverStart = '(extract(epoch from pg_postmaster_start_time()) * 1000)::bigint'

/** The lock that the session of a worker holds: a pair of numbers, apart from the other locks. */
export function lockOfWorker(id: string): string {
  return `${locks.worker}, (${id} % 2147483647)::int`
}

/** Whether the session of the worker of a row has ended. It cannot come back before the transaction ends. */
export const hasSessionEnded = either(
  'false',
  `session = ${serverStart} and pg_try_advisory_xact_lock(${lockOfWorker('id')})`,
)

/** Locks the selected rows until the transaction ends. SQLite has one writer, so there is nothing to lock. */
export const forUpdate = either('', 'for update')
/** As `forUpdate`, but others may lock the rows like this at the same time. */
export const forShare = either('', 'for share')
/** As `forShare`, against removal and changes of the key alone. */
export const forKeyShare = either('', 'for key share')
/** As `forUpdate`, passing over rows that are locked already. */
export const forUpdateSkipLocked = either('', 'for update skip locked')

/** A statement that waits until no other transaction has the lock. On SQLite no two transactions write at once. */
export function lock(name: keyof typeof locks): Fragment {
  return either('select 1', `select pg_advisory_xact_lock(${locks[name]})`)
}

export function greatest(one: StatementPart, other: StatementPart): Fragment {
  return either(fragment`max(${one}, ${other})`, fragment`greatest(${one}, ${other})`)
}

export function least(one: StatementPart, other: StatementPart): Fragment {
  return either(fragment`min(${one}, ${other})`, fragment`least(${one}, ${other})`)
}

/** Whether a column that holds a list of integers has a value. */
export function has(column: string, value: string): Fragment {
  return either(`exists (select 1 from json_each(${column}) where value = ${value})`, `${value} = any (${column})`)
}

/** A column that holds a list of integers, with one more value. */
export function append(column: string, value: string): Fragment {
  return either(`json_insert(${column}, '$[#]', ${value})`, `array_append(${column}, ${value}::bigint)`)
}

/** How many values a column that holds a list has. */
export function lengthOf(column: string): Fragment {
  return either(`json_array_length(${column})`, `cardinality(${column})`)
}

/** A parameter that is bytes or null, where its type cannot be inferred. */
export function bytes(parameter: string): Fragment {
  return either(parameter, `${parameter}::bytea`)
}

/** Text as the value of a JSON column. */
export function json(text: string): Fragment {
  return either(text, `${text}::json`)
}

/** Whether a column's value is in a list parameter. */
export function among(column: string, list: string, type: ColumnType = 'bigint'): Fragment {
  return either(`${column} in (select value from json_each(${list}))`, `${column} = any (${list}::${type}[])`)
}

/** A table of the objects in a list parameter: one column per field, and `place`, which counts from 1. */
export function rowsOf(list: string, alias: string, fields: ColumnTypes): Fragment {
  const names = Object.keys(fields)
  const values = names.map((field) => `value ->> '${field}' as ${field}`)
  const arrays = Object.entries(fields).map(([field, type]) => `${list}.${field}::${type}[]`)
  return either(
    `(select ${values.join(', ')}, key + 1 as place from json_each(${list})) as ${alias}`,
    `unnest(${arrays.join(', ')}) with ordinality as ${alias} (${names.join(', ')}, place)`,
  )
}

/**
 * Joins the one row of a table that meets a condition, whose columns are qualified by the table's name. On Postgres the
 * limit keeps the planner to one probe per row, whatever the statistics say.
 */
export function probe(table: string, condition: StatementPart, locking: StatementPart = ''): Fragment {
  return either(
    fragment`join ${table} on ${condition}`,
    fragment`cross join lateral (select * from ${table} where ${condition} limit 1 ${locking}) as ${table}`,
  )
}

/**
 * As `probe`, for all rows that meet the condition: one range of an index for each row that is joined. The offset keeps the
 * planner from driving the join from the table.
 */
export function ranges(table: string, condition: StatementPart): Fragment {
  return either(
    fragment`join ${table} on ${condition}`,
    fragment`cross join lateral (select * from ${table} where ${condition} offset 0) as ${table}`,
  )
}

// Rows are deleted by their place on Postgres: a delete that joins may be driven from all of the table.

/**
 * Deletes the rows of a table that a query finds, and returns one row for each. `key` lists the columns of the primary key;
 * `found` is what follows `select … from table`.
 */
export function deleteFound(table: string, key: string, found: StatementPart): Fragment {
  return either(
    fragment`delete from ${table} where (${key}) in (select ${key} from ${table} ${found}) returning 1`,
    fragment`delete from ${table} where ctid = any (array (select ctid from ${table} ${found})) returning 1`,
  )
}

/** The condition that a row of a table is among those that a list names by these fields. */
export function listed(table: string, list: string, fields: ColumnTypes): Fragment {
  const names = Object.keys(fields)
  const values = names.map((field) => `value ->> '${field}'`)
  const condition = names.map((field) => `${table}.${field} = listed.${field}`).join(' and ')
  return either(
    `(${names.join(', ')}) in (select ${values.join(', ')} from json_each(${list}))`,
    fragment`ctid = any (array (
      select found.place from ${rowsOf(list, 'listed', fields)}
       cross join lateral (select ctid as place from ${table} where ${condition} limit 1) as found))`,
  )
}

/** Deletes the rows of a table that a list names, and returns these fields of each. */
export function deleteListed(table: string, list: string, fields: ColumnTypes): Fragment {
  return fragment`delete from ${table} where ${listed(table, list, fields)} returning ${Object.keys(fields).join(', ')}`
}
