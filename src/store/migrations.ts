import type { Folder } from '../assets/assets.ts'

/** The database was last written by a newer Sluice, whose tables this one does not know. */
export class NewerSchemaError extends Error {
  override readonly name = 'NewerSchemaError'
}

export interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
}

/** The migrations in a folder, in order. */
export function readMigrations(folder: Folder): Migration[] {
  return folder.names
    .filter((file) => /^\d{4}_.*\.sql$/.test(file))
    .map((file) => ({
      version: Number(file.slice(0, 4)),
      name: file.slice(5, -'.sql'.length),
      sql: folder.read(file).toString('utf8'),
    }))
}

/** The migrations that a database at version `found` lacks. Throws `NewerSchemaError` when it is beyond all of them. */
export function missingFrom(migrations: readonly Migration[], found: number): readonly Migration[] {
  const newest = migrations.at(-1)?.version ?? 0
  if (found > newest) {
    throw new NewerSchemaError(
      `the database has schema version ${found}, but this version of Sluice knows only up to ${newest}: upgrade Sluice`,
    )
  }
  return migrations.filter(({ version }) => version > found)
}
