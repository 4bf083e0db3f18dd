import { sealedFields } from '../../domain/endpoint.ts'
import { SealError, type SealedPlace, sealedWith, type Vault } from '../vault.ts'
import { type RegionPlace, sealedPlace } from './applications.ts'
import { signingKeyPlace } from './auditing.ts'
import { type EndpointRow, type SealedColumn, sealedColumns } from './endpoint-rows.ts'
import type { Port, Work } from './port.ts'
import { scheduleHeadersPlace } from './schedules.ts'
import { type SealedSourceField, sealedSourceFields, sourcePlace } from './sources.ts'
import { statement, type Value } from './statement.ts'
import { subjectKeyPlace } from './subjects.ts'

type SealedRow = Pick<EndpointRow, 'key' | 'app' | SealedColumn>
type ScheduleRow = { readonly key: number; readonly app: number; readonly headers: unknown }
type SubjectKeyRow = { readonly app: number; readonly secret: string }
type SigningKeyRow = { readonly id: string; readonly secret: string }
type SourceRow = { readonly key: number; readonly app: number } & Readonly<Record<SealedSourceField, unknown>>
type RegionRow = RegionPlace & { readonly secret: string }

const sealedNames = Object.values(sealedColumns)

const selectSealingKeys = statement<SealingKey>('sealing-keys', 'select id, proof from sealing_key order by id')
const insertSealingKey = statement(
  'insert-sealing-key',
  'insert into sealing_key (id, proof) values (:id, :proof) on conflict (id) do nothing',
)
const deleteSealingKey = statement('delete-sealing-key', 'delete from sealing_key where id = :id')
// Each locks rows, so that a change made meanwhile is not undone.
const selectSealed = statement<SealedRow>(
  'sealed-endpoints',
  ({ forUpdate }) => `
    select key, app, ${sealedNames.join(', ')} from endpoint where key > :after order by key limit :limit ${forUpdate}`,
  { sealed: sealedNames },
)
const selectRegions = statement<RegionRow>(
  'sealed-regions',
  ({ forUpdate }) => `
    select app, name, secret from region where (app, name) > (:app, :name) order by app, name limit :limit ${forUpdate}`,
)
const selectSchedules = statement<ScheduleRow>(
  'sealed-schedules',
  ({ forUpdate }) => `
    select key, app, headers from schedule where key > :after order by key limit :limit ${forUpdate}`,
  { sealed: ['headers'] },
)
const selectSubjectKeys = statement<SubjectKeyRow>(
  'sealed-subject-keys',
  ({ forUpdate }) => `
    select app, secret from subject_key where app > :after order by app limit :limit ${forUpdate}`,
)
const updateSubjectKey = statement('reseal-subject-key', 'update subject_key set secret = :secret where app = :app')
const selectSigningKeys = statement<SigningKeyRow>(
  'sealed-signing-keys',
  ({ forUpdate }) => `select id, secret from signing_key order by id ${forUpdate}`,
)
const updateSigningKey = statement('reseal-signing-key', 'update signing_key set secret = :secret where id = :id')
const selectSources = statement<SourceRow>(
  'sealed-sources',
  ({ forUpdate }) => `
    select key, app, ${sealedSourceFields.join(', ')} from source where key > :after order by key limit :limit ${forUpdate}`,
  { sealed: sealedSourceFields },
)
const updateSource = statement(
  'reseal-source',
  'update source set settings = :settings, secrets = :secrets, tokens = :tokens where key = :key',
)
const updateSchedule = statement('reseal-schedule', 'update schedule set headers = :headers where key = :key')
const updateSealed = statement(
  'reseal-endpoint',
  `update endpoint set ${sealedNames.map((column) => `${column} = :${column}`).join(', ')} where key = :key`,
)
const updateRegion = statement('reseal-region', 'update region set secret = :secret where app = :app and name = :name')

/**
 * Checks that the vault has the keys of this store, and answers whether all sealed records are under its first key.
 * Throws `SealError` naming a key that has the id but not the bytes.
 */
export function* areSealed(port: Port): Work<boolean> {
  return isSettled(port.context.vault, yield* port.all(selectSealingKeys))
}

/**
 * Seals every record under the vault's first key, a few rows per transaction: those under an older key, and those
 * written before Sluice sealed. Throws `SealError` naming a key of this store that is missing.
 */
export function* sealAll(port: Port): Work<void> {
  const { vault, log } = port.context
  const known = yield* port.all(selectSealingKeys)
  const resealer = new Resealer(vault, known, log)
  const { id, proof } = proofOf(vault)
  // Recorded before anything is sealed with it.
  yield* port.all(insertSealingKey, { id, proof })
  yield* sealEndpoints(port, resealer)
  yield* sealRegions(port, resealer)
  yield* sealSchedules(port, resealer)
  yield* sealSubjectKeys(port, resealer)
  yield* sealSigningKeys(port, resealer)
  yield* sealSources(port, resealer)
  // Nothing is sealed with these any more, and no process that has them writes.
  for (const key of known) if (!vault.keyIds.includes(key.id)) yield* port.all(deleteSealingKey, { id: key.id })
}

function* sealEndpoints(port: Port, resealer: Resealer): Work<void> {
  let after = -1
  for (let full = true; full; ) {
    full = yield* port.transaction(function* (sql) {
      const rows = yield* sql.all(selectSealed, { after, limit: sealingChunk })
      for (const row of rows) {
        const resealed = sealedFields.map((field) => {
          const stored = row[sealedColumns[field]]
          const place = { app: row.app, endpoint: row.key, field }
          return {
            column: sealedColumns[field],
            stored,
            next: stored === null ? undefined : resealer.reseal(stored, place),
          }
        })
        if (resealed.some(({ next }) => next !== undefined)) {
          const values = resealed.map(({ column, stored, next }): [string, Value] => {
            return [column, stored === null ? null : { sealed: next ?? stored }]
          })
          yield* sql.all(updateSealed, { key: row.key, ...Object.fromEntries(values) })
        }
        after = row.key
      }
      return rows.length === sealingChunk
    })
  }
}

function* sealRegions(port: Port, resealer: Resealer): Work<void> {
  let after: RegionPlace = { app: -1, name: '' }
  for (let full = true; full; ) {
    full = yield* port.transaction(function* (sql) {
      const { app, name } = after
      const rows = yield* sql.all(selectRegions, { app, name, limit: sealingChunk })
      for (const row of rows) {
        const secret = resealer.reseal(row.secret, sealedPlace(row))
        if (secret) yield* sql.all(updateRegion, { app: row.app, name: row.name, secret })
        after = row
      }
      return rows.length === sealingChunk
    })
  }
}

function* sealSchedules(port: Port, resealer: Resealer): Work<void> {
  let after = -1
  for (let full = true; full; ) {
    full = yield* port.transaction(function* (sql) {
      const rows = yield* sql.all(selectSchedules, { after, limit: sealingChunk })
      for (const row of rows) {
        const headers = row.headers === null ? undefined : resealer.reseal(row.headers, scheduleHeadersPlace(row))
        if (headers) yield* sql.all(updateSchedule, { key: row.key, headers: { sealed: headers } })
        after = row.key
      }
      return rows.length === sealingChunk
    })
  }
}

function* sealSubjectKeys(port: Port, resealer: Resealer): Work<void> {
  let after = -1
  for (let full = true; full; ) {
    full = yield* port.transaction(function* (sql) {
      const rows = yield* sql.all(selectSubjectKeys, { after, limit: sealingChunk })
      for (const { app, secret: stored } of rows) {
        const secret = resealer.reseal(stored, subjectKeyPlace(app))
        if (secret) yield* sql.all(updateSubjectKey, { app, secret })
        after = app
      }
      return rows.length === sealingChunk
    })
  }
}

function* sealSources(port: Port, resealer: Resealer): Work<void> {
  let after = -1
  for (let full = true; full; ) {
    full = yield* port.transaction(function* (sql) {
      const rows = yield* sql.all(selectSources, { after, limit: sealingChunk })
      for (const row of rows) {
        const resealed = sealedSourceFields.map((field) => resealer.reseal(row[field], sourcePlace(row, field)))
        if (resealed.some((sealed) => sealed !== undefined)) {
          const values = sealedSourceFields.map((field, i) => [field, { sealed: resealed[i] ?? row[field] }])
          yield* sql.all(updateSource, { key: row.key, ...Object.fromEntries(values) })
        }
        after = row.key
      }
      return rows.length === sealingChunk
    })
  }
}

/** There is one, unless an operator removed the encryption key that an earlier one was sealed with. */
function* sealSigningKeys(port: Port, resealer: Resealer): Work<void> {
  yield* port.transaction(function* (sql) {
    for (const { id, secret: stored } of yield* sql.all(selectSigningKeys)) {
      const secret = resealer.reseal(stored, signingKeyPlace(id))
      if (secret) yield* sql.all(updateSigningKey, { id, secret })
    }
  })
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

/** A new row of `sealing_key`. */
function proofOf(vault: Vault): SealingKey {
  return { id: vault.sealsWith, proof: vault.seal(proofText, proofPlace) }
}

/**
 * Checks the vault's keys against those the store knows; throws `SealError` when one has the id but not the bytes. True
 * when the sealing key is the only one that ever sealed here, so that all records are under it.
 */
function isSettled(vault: Vault, known: readonly SealingKey[]): boolean {
  for (const { id, proof } of known) if (vault.keyIds.includes(id)) openProof(vault, id, proof)
  return known.length === 1 && known[0]?.id === vault.sealsWith
}

function openProof(vault: Vault, id: string, proof: string): void {
  try {
    vault.open(proof, proofPlace)
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    throw new SealError(`the encryption key ${id} is not the one this store was sealed with`, { cause: error })
  }
}

/** Seals stored values under a vault's first key. */
class Resealer {
  readonly #vault: Vault
  readonly #known: ReadonlySet<string>
  readonly #log: ((sentence: string) => void) | undefined

  /** `known` are the keys that may have sealed something in this store. */
  constructor(vault: Vault, known: readonly SealingKey[], log: ((sentence: string) => void) | undefined) {
    this.#vault = vault
    this.#known = new Set(known.map(({ id }) => id))
    this.#log = log
  }

  /**
   * The stored value under the sealing key; undefined when it stays as it is. A damaged record stays, with a line in the
   * log: one bad record does not keep the store closed. Throws `SealError` when a key of this store is missing.
   */
  reseal(stored: unknown, place: SealedPlace): string | undefined {
    const vault = this.#vault
    const by = sealedWith(stored)
    if (by === vault.sealsWith) return undefined
    // Written before Sluice sealed. An empty value is never sealed.
    if (typeof stored === 'object') {
      return Object.keys(stored as object).length === 0 ? undefined : vault.seal(JSON.stringify(stored), place)
    }
    try {
      return vault.seal(vault.open(String(stored), place), place)
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      if (by !== undefined && this.#known.has(by) && !vault.keyIds.includes(by)) throw error
      this.#log?.(`a sealed record is damaged and stays as it is: ${error.message}`)
      return undefined
    }
  }
}
