import { regionPlace } from '../../features/applications/rows.ts'
import { signingKeyPlace } from '../../features/audit/rows.ts'
import { type SealedField, sealedFields } from '../../features/endpoints/rules.ts'
import { subjectKeyPlace } from '../../features/erasure/rows.ts'
import { nouns } from '../../features/nouns.ts'
import { sealedTableOf } from '../../noun/rows.ts'
import type { StoreContext } from '../store.ts'
import { SealError, type SealedPlace, sealedWith, type Vault } from '../vault.ts'
import { forUpdate } from './dialect.ts'
import type { Port, Work } from './port.ts'
import { sealedColumns } from './receiver-rows.ts'
import { assignments, parameters, statement, type Value, type Values } from './statement.ts'

const selectSealingKeys = statement<SealingKey>('sealing-keys')`select id, proof from sealing_key order by id`
const insertSealingKey = statement('insert-sealing-key')`
  insert into sealing_key (id, proof) values (:id, :proof) on conflict (id) do nothing`
const deleteSealingKey = statement('delete-sealing-key')`delete from sealing_key where id = :id`

/** The columns by which tables know their rows, and sealed records by the names of their columns. */
type SealedRow = Readonly<Record<'key' | 'app', number> & Record<'id' | 'name', string> & Record<string, unknown>>

interface SealedTable {
  readonly name: string
  /** The columns of its primary key, each with a value in front of all rows. */
  readonly start: Values
  /** The columns that hold records. */
  readonly columns: readonly string[]
  /** Whether the columns are JSON, which may hold a value that was never sealed, and null. Otherwise they are text. */
  readonly isJson: boolean
  placeOf(row: SealedRow, column: string): SealedPlace
}

const fieldOf = new Map<string, SealedField>(sealedFields.map((field) => [sealedColumns[field], field]))
const tables: readonly SealedTable[] = [
  {
    name: 'endpoint',
    start: { key: -1 },
    columns: Object.values(sealedColumns),
    isJson: true,
    placeOf: ({ app, key }, column) => ({ app, endpoint: key, field: fieldOf.get(column) as SealedField }),
  },
  { name: 'region', start: { app: -1, name: '' }, columns: ['secret'], isJson: false, placeOf: regionPlace },
  {
    name: 'subject_key',
    start: { app: -1 },
    columns: ['secret'],
    isJson: false,
    placeOf: ({ app }) => subjectKeyPlace(app),
  },
  {
    name: 'signing_key',
    start: { id: '' },
    columns: ['secret'],
    isJson: false,
    placeOf: ({ id }) => signingKeyPlace(id),
  },
  ...Object.values(nouns)
    .map(sealedTableOf)
    .filter(({ columns }) => columns.length > 0),
]
const sealedTables = tables.map(withStatements)

function withStatements(table: SealedTable) {
  const { name, start, columns, isJson } = table
  const key = Object.keys(start)
  // The place of a record that is known by the key of its row also has its application.
  const named = 'key' in start ? [...key, 'app'] : key
  return {
    ...table,
    // Locks the rows, so that a change made meanwhile is not undone.
    select: statement<SealedRow>(`sealed-${name}`, isJson ? { sealed: columns } : {})`
      select ${[...named, ...columns].join(', ')} from ${name}
       where (${key.join(', ')}) > (${parameters(key)}) order by ${key.join(', ')} limit :limit ${forUpdate}`,
    update: statement(`reseal-${name}`)`
      update ${name} set ${assignments(columns)} where (${key.join(', ')}) = (${parameters(key)})`,
  }
}

/**
 * Checks that the vault has the keys of this store, and answers whether all sealed records are under its first key.
 * Throws `SealError` naming a key that has the id but not the bytes.
 */
export function* areSealed(port: Port): Work<boolean> {
  const { vault } = port.context
  const known = yield* port.all(selectSealingKeys)
  for (const { id, proof } of known) if (vault.keyIds.includes(id)) openProof(vault, id, proof)
  // The sealing key is the only one that ever sealed here.
  return known.length === 1 && known[0]?.id === vault.sealsWith
}

/**
 * Seals every record under the vault's first key, a few rows per transaction: those under an older key, and those
 * written before Sluice sealed. Throws `SealError` naming a key of this store that is missing.
 */
export function* sealAll(port: Port): Work<void> {
  const { vault } = port.context
  const known = yield* port.all(selectSealingKeys)
  const reseal = resealer(port.context, new Set(known.map(({ id }) => id)))
  // Recorded before anything is sealed with it.
  yield* port.run(insertSealingKey, { id: vault.sealsWith, proof: vault.seal(proofText, proofPlace) })
  for (const table of sealedTables) yield* sealTable(port, table, reseal)
  // Nothing is sealed with these any more, and no process that has them writes.
  for (const key of known) if (!vault.keyIds.includes(key.id)) yield* port.run(deleteSealingKey, { id: key.id })
}

function* sealTable(port: Port, table: (typeof sealedTables)[number], reseal: Reseal): Work<void> {
  const { start, columns, isJson, placeOf, select, update } = table
  let after: Values = start
  for (let full = true; full; ) {
    full = yield* port.transaction(function* (sql) {
      const rows = yield* sql.all(select, { ...after, limit: sealingChunk })
      for (const row of rows) {
        after = Object.fromEntries(Object.keys(start).map((name) => [name, row[name] as Value]))
        const resealed = columns.map((column) => reseal(row[column], placeOf(row, column)))
        if (resealed.every((sealed) => sealed === undefined)) continue
        const values = columns.map((column, i): [string, Value] => {
          const value = resealed[i] ?? row[column]
          return [column, isJson && value !== null ? { sealed: value } : (value as string | null)]
        })
        yield* sql.run(update, { ...after, ...Object.fromEntries(values) })
      }
      return rows.length === sealingChunk
    })
  }
}

/** Rows per transaction when all records are sealed under another key. */
const sealingChunk = 200

/** The proof of a key: a constant text, sealed for a place that no endpoint has. */
const proofText = 'sluice'
const proofPlace: SealedPlace = { app: 0, endpoint: 0, field: 'proof' }

/** A row of `sealing_key`: a key that may have sealed something in this store. */
interface SealingKey {
  readonly id: string
  readonly proof: string
}

function openProof(vault: Vault, id: string, proof: string): void {
  try {
    vault.open(proof, proofPlace)
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    throw new SealError(`the encryption key ${id} is not the one this store was sealed with`, { cause: error })
  }
}

type Reseal = (stored: unknown, place: SealedPlace) => string | undefined

/**
 * Makes the function that seals a stored value under the vault's first key. It answers undefined for a value that stays as it
 * is, as null does. A damaged record stays, with a line in the log: one bad record does not keep the store closed. It throws
 * `SealError` when one of the `known` keys, which may have sealed something in this store, is missing.
 */
function resealer({ vault, log }: StoreContext, known: ReadonlySet<string>): Reseal {
  return (stored, place) => {
    const by = sealedWith(stored)
    if (stored === null || by === vault.sealsWith) return undefined
    // Written before Sluice sealed. An empty value is never sealed.
    if (typeof stored === 'object') {
      return Object.keys(stored as object).length === 0 ? undefined : vault.seal(JSON.stringify(stored), place)
    }
    try {
      return vault.seal(vault.open(String(stored), place), place)
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      if (by !== undefined && known.has(by) && !vault.keyIds.includes(by)) throw error
      log?.(`a sealed record is damaged and stays as it is: ${error.message}`)
      return undefined
    }
  }
}
