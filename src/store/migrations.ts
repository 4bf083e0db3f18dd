import { programFolder } from '../assets/assets.ts'
import type { StoreKind } from '../domain/store-traits.ts'

/** The database was migrated by a newer Sluice, to a schema on which this program does not work. */
export class NewerSchemaError extends Error {
  override readonly name = 'NewerSchemaError'
}

/** The database was made by a version of Sluice that was never released, and whose tables no release reads. */
export class UnreleasedSchemaError extends Error {
  override readonly name = 'UnreleasedSchemaError'
}

/** The name of the first migration, which makes the tables of the first release. */
export const firstMigration = 'schema'

/** Throws `UnreleasedSchemaError` where the first migration of a database has another name; it has none when it is empty. */
export function assertReleased(first: string | undefined): void {
  if (first === undefined || first === firstMigration) return
  throw new UnreleasedSchemaError(
    'the database was made by a version of Sluice from before the first release, which no release reads: name another ' +
      'database in SLUICE_STORE and begin there. To keep data, run the version that made it, save dead letters with ' +
      '`sluice dead export`, and publish what still waits again (docs/versions.md)',
  )
}

export interface Migration {
  readonly version: number
  readonly name: string
  /** Its first line declares what it asks of the programs that run on the database; see `worksSince`. */
  readonly sql: string
}

/** The schema of a database. */
export interface Schema {
  /** The newest migration applied; 0 for an empty database. */
  readonly version: number
  /** The oldest version whose programs work on it: those that know this migration, or a newer one. */
  readonly worksSince: number
}

/** A migration that a database lacks. */
export interface Step {
  readonly version: number
  readonly name: string
  readonly worksSince: number
  /** Whether programs that know the database as it is go on working while this migration runs and afterwards. */
  readonly isSafe: boolean
}

/** A database as one program sees it. */
export interface SchemaPlan {
  readonly schema: Schema
  /** The newest migration that the program knows. */
  readonly known: { readonly version: number; readonly name: string }
  /** The migrations that the program would run. */
  readonly steps: readonly Step[]
}

/** The migrations of a database that come with this program, in order. */
export function knownMigrations(dialect: StoreKind): Migration[] {
  const folder = programFolder(`store/${dialect}/migrations`)
  return folder.names
    .filter((file) => /^\d{4}_.*\.sql$/.test(file))
    .map((file) => ({
      version: Number(file.slice(0, 4)),
      name: file.slice(5, -'.sql'.length),
      sql: folder.read(file).toString('utf8'),
    }))
}

const declaration = /^-- (?:(expand)|contract since (\d+))(?:$|[:.] )/m

/**
 * The oldest schema version whose programs work on a database after this migration. The first line of the migration says it:
 *
 * - `-- expand`: every program, because the migration only adds what older programs need not know.
 * - `-- contract since 41`: programs that know version 41, because they no longer use what the migration takes away.
 * - Without either, only programs that know the migration itself. A forgotten declaration stops old programs; it breaks none.
 */
export function worksSince({ version, sql }: Migration): number {
  const [firstLine = ''] = sql.split('\n', 1)
  const [, expand, since] = declaration.exec(firstLine) ?? []
  if (expand !== undefined) return 0
  return since === undefined ? version : Number(since)
}

/**
 * The migrations that the database lacks. Throws `NewerSchemaError` when it has a migration that these do not know and
 * that programs without it do not survive.
 */
export function missingFrom(migrations: readonly Migration[], schema: Schema): readonly Migration[] {
  const newest = newestOf(migrations).version
  if (schema.version > newest && schema.worksSince > newest) {
    throw new NewerSchemaError(
      `the database has schema version ${schema.version}, which programs that know version ${schema.worksSince} or newer can use; ` +
        `this version of Sluice knows only up to ${newest}: start the version that migrated the database, or restore the ` +
        'backup made before it (docs/upgrading.md)',
    )
  }
  return migrations.filter(({ version }) => version > schema.version)
}

/** The database as a program with these migrations sees it. Throws like `missingFrom`. */
export function planFor(migrations: readonly Migration[], schema: Schema): SchemaPlan {
  const steps = missingFrom(migrations, schema).map((migration) => {
    const since = worksSince(migration)
    // No program works on an empty database yet. On any other, those that run know its newest migration.
    const isSafe = schema.version === 0 || since <= schema.version
    return { version: migration.version, name: migration.name, worksSince: since, isSafe }
  })
  const { version, name } = newestOf(migrations)
  return { schema, known: { version, name }, steps }
}

/** The line in the log of a program on a database that a newer one has migrated. */
export function newerNotice(migrations: readonly Migration[], { version }: Schema): string | undefined {
  const newest = newestOf(migrations).version
  if (version <= newest) return undefined
  return (
    `the database has schema version ${version}; this version of Sluice knows ${newest} and works on it. ` +
    'Finish the upgrade, or stop the newer version, so that all processes are of one version'
  )
}

function newestOf(migrations: readonly Migration[]): { readonly version: number; readonly name: string } {
  return migrations.at(-1) ?? { version: 0, name: 'empty' }
}
