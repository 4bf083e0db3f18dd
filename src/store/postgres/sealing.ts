import { sealedFields } from '../../domain/endpoint.ts'
import { type RegionPlace, sealedPlace } from '../regions.ts'
import { isSettled, proofOf, Resealer, type SealingKey, sealingChunk } from '../sealing.ts'
import { toJson } from '../sql/json.ts'
import type { StoreContext } from '../store.ts'
import { type Sessions, statement } from './sessions.ts'

const selectSealingKeys = statement('sealing-keys', 'select id, proof from sealing_key order by id')
const insertSealingKey = statement(
  'insert-sealing-key',
  'insert into sealing_key (id, proof) values ($1, $2) on conflict (id) do nothing',
)
const deleteSealingKey = statement('delete-sealing-key', 'delete from sealing_key where id = $1')
// Locked, so that a change made meanwhile is not undone.
const selectSealed = statement(
  'sealed-endpoints',
  'select key, app, secrets, headers from endpoint where key > $1 order by key limit $2 for update',
)
const updateSealed = statement('reseal-endpoint', 'update endpoint set secrets = $2, headers = $3 where key = $1')
const selectRegions = statement(
  'sealed-regions',
  'select app, name, secret from region where (app, name) > ($1, $2) order by app, name limit $3 for update',
)
const updateRegion = statement('reseal-region', 'update region set secret = $3 where app = $1 and name = $2')

interface SealedRow {
  readonly key: number
  readonly app: number
  readonly secrets: unknown
  readonly headers: unknown
}

/**
 * Makes sure that the vault opens what is sealed here, and that all of it is sealed with its first key: what an older key
 * sealed, or nobody, is sealed anew, a few rows per transaction. Throws `SealError` naming a key that is missing or wrong.
 */
export async function checkSeals(sessions: Sessions, { vault, log }: StoreContext): Promise<void> {
  const known = await sessions.run<SealingKey>(selectSealingKeys)
  if (isSettled(vault, known)) return
  const resealer = new Resealer(vault, known, log)
  const { id, proof } = proofOf(vault)
  // Recorded before anything is sealed with it.
  await sessions.run(insertSealingKey, [id, proof])
  let after = -1
  for (let full = true; full; ) {
    await sessions.transaction(async (run) => {
      const rows = await run<SealedRow>(selectSealed, [after, sealingChunk])
      for (const row of rows) {
        const [secrets, headers] = sealedFields.map((field) =>
          resealer.reseal(row[field], { app: row.app, endpoint: row.key, field }),
        )
        if (secrets ?? headers) {
          await run(updateSealed, [row.key, toJson(secrets ?? row.secrets), toJson(headers ?? row.headers)])
        }
        after = row.key
      }
      full = rows.length === sealingChunk
    })
  }
  await sealRegionsAnew(sessions, resealer)
  // Nothing is sealed with these any more, and nobody who has them writes.
  for (const key of known) if (!vault.keyIds.includes(key.id)) await sessions.run(deleteSealingKey, [key.id])
}

async function sealRegionsAnew(sessions: Sessions, resealer: Resealer): Promise<void> {
  let after: RegionPlace = { app: -1, name: '' }
  for (let full = true; full; ) {
    await sessions.transaction(async (run) => {
      const rows = await run<RegionPlace & { readonly secret: string }>(selectRegions, [
        after.app,
        after.name,
        sealingChunk,
      ])
      for (const row of rows) {
        const secret = resealer.reseal(row.secret, sealedPlace(row))
        if (secret) await run(updateRegion, [row.app, row.name, secret])
        after = row
      }
      full = rows.length === sealingChunk
    })
  }
}
