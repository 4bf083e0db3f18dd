import { hash } from 'node:crypto'

// Rows of one database on their way to another, as text. Both databases have the same tables and columns.

/** The value of a column as Postgres writes it; null for no value. */
export type RowText = readonly (string | null)[]

export interface MovedTable {
  readonly name: string
  /** Its columns with the types that Postgres gives them. */
  readonly columns: readonly { readonly name: string; readonly type: string }[]
}

/** How far a table has come, and the sum of the hashes of its rows. */
export interface TableProgress {
  readonly rows: number
  readonly sum: bigint
  /** The primary key of the last row, as JSON; null before the first. */
  readonly cursor: string | null
  readonly done: boolean
}

/**
 * Tables that stay behind: processes and their leases, which end with the move, the proofs of encryption keys, which the other
 * store makes by itself, and the file's own form of taken hashes.
 */
export const leftBehind: ReadonlySet<string> = new Set([
  'app_share',
  'leader',
  'migration',
  'moved',
  'sealing_key',
  'taken_hash',
  'taken_run',
  'unclosed',
  'worker',
])

const separator = '\u001f'
const nothing = '\\N'

/** A row as the text that is hashed. `hashOf` in SQL is `sumOfHashes`. */
function joined(row: RowText): string {
  return row.map((value) => value ?? nothing).join(separator)
}

/** 60 bits of SHA-256, so that sums of them fit a numeric and no two rows that differ are likely to agree. */
export function hashOf(row: RowText): bigint {
  return BigInt(`0x${hash('sha256', joined(row), 'hex').slice(0, 15)}`)
}

/** The statement that counts the rows of a table in Postgres and adds up the same hashes. */
export function sumOfHashes({ name, columns }: MovedTable): string {
  const texts = columns.map((column) => `coalesce(${quoted(column.name)}::text, '${nothing}')`)
  const text = texts.join(` || U&'\\001f' || `)
  return `select count(*) as rows,
    coalesce(sum(('x' || left(encode(sha256(convert_to(${text}, 'UTF8')), 'hex'), 15))::bit(60)::bigint), 0)::text as sum
    from ${quoted(name)}`
}

export function quoted(name: string): string {
  return `"${name}"`
}
