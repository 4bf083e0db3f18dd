import { sealedFields } from '../../domain/endpoint.ts'
import { type RegionPlace, sealedPlace } from '../regions.ts'
import { isSettled, proofOf, Resealer, type SealingKey, sealingChunk } from '../sealing.ts'
import type { Connection } from './connection.ts'
import { unlessSealed } from './rows.ts'

const selectSealingKeys = 'select id, proof from sealing_key order by id'
const insertSealingKey = 'insert into sealing_key (id, proof) values (?, ?) on conflict (id) do nothing'
const deleteSealingKey = 'delete from sealing_key where id = ?'
const selectSealed = 'select key, app, secrets, headers from endpoint where key > ? order by key limit ?'
const updateSealed = 'update endpoint set secrets = ?, headers = ? where key = ?'
const selectRegions = 'select app, name, secret from region where (app, name) > (?, ?) order by app, name limit ?'
const updateRegion = 'update region set secret = ? where app = ? and name = ?'

interface SealedRow {
  readonly key: number
  readonly app: number
  readonly secrets: string
  readonly headers: string
}

/**
 * Makes sure that the vault opens what is sealed here, and that all of it is sealed with its first key: what an older key
 * sealed, or nobody, is sealed anew, a few rows per transaction. Throws `SealError` naming a key that is missing or wrong.
 */
export function checkSeals(connection: Connection): void {
  const { vault, log } = connection.context
  const known = connection.prepare<SealingKey>(selectSealingKeys).all()
  if (isSettled(vault, known)) return
  const resealer = new Resealer(vault, known, log)
  const { id, proof } = proofOf(vault)
  // Recorded before anything is sealed with it.
  connection.prepare(insertSealingKey).run(id, proof)
  // What was readable is overwritten, not only let go.
  connection.db.exec('pragma secure_delete = on')
  const page = connection.prepare<SealedRow>(selectSealed)
  const update = connection.prepare(updateSealed)
  let after = -1
  for (let full = true; full; ) {
    connection.transaction(() => {
      const rows = page.all(after, sealingChunk)
      for (const row of rows) {
        const [secrets, headers] = sealedFields.map((field) =>
          resealer.reseal(unlessSealed(row[field]), { app: row.app, endpoint: row.key, field }),
        )
        if (secrets ?? headers) update.run(secrets ?? row.secrets, headers ?? row.headers, row.key)
        after = row.key
      }
      full = rows.length === sealingChunk
    })
  }
  sealRegionsAnew(connection, resealer)
  connection.db.exec('pragma secure_delete = fast')
  connection.db.exec('pragma wal_checkpoint(truncate)')
  // Nothing is sealed with these any more, and nobody who has them writes.
  const forget = connection.prepare(deleteSealingKey)
  for (const key of known) if (!vault.keyIds.includes(key.id)) forget.run(key.id)
}

function sealRegionsAnew(connection: Connection, resealer: Resealer): void {
  const page = connection.prepare<RegionPlace & { readonly secret: string }>(selectRegions)
  const update = connection.prepare(updateRegion)
  let after: RegionPlace = { app: -1, name: '' }
  for (let full = true; full; ) {
    connection.transaction(() => {
      const rows = page.all(after.app, after.name, sealingChunk)
      for (const row of rows) {
        const secret = resealer.reseal(row.secret, sealedPlace(row))
        if (secret) update.run(secret, row.app, row.name)
        after = row
      }
      full = rows.length === sealingChunk
    })
  }
}
