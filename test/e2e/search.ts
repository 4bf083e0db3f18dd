import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Place } from './place.ts'

/** Everything in the tables, as one text. */
export async function rowsOf(place: Place): Promise<string> {
  const names =
    place.dialect === 'sqlite'
      ? `select name from sqlite_schema where type = 'table'`
      : `select tablename as name from pg_tables where schemaname = 'public'`
  const texts: string[] = []
  for (const { name } of await place.query(names)) {
    for (const row of await place.query(`select * from "${name}"`)) {
      for (const value of Object.values(row)) {
        texts.push(value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : (JSON.stringify(value) ?? ''))
      }
    }
  }
  return texts.join('\n')
}

/** The bytes of the files of a SQLite database; nothing of a Postgres database, whose pages keep old rows. */
export function filesOf(place: Place): string {
  if (place.dialect !== 'sqlite') return ''
  const path = place.store.slice('sqlite:'.length)
  const files = [path, `${path}-wal`, `${path}-shm`].filter(existsSync)
  return files.map((file) => readFileSync(file, 'latin1')).join('')
}

/** The sample of values that Postgres keeps for its planner, as text; bytes are in hex. */
export async function statisticsOf(place: Place): Promise<string> {
  const rows = await place.query(
    `select tablename, attname, most_common_vals::text as common, histogram_bounds::text as bounds
       from pg_stats where schemaname = 'public'`,
  )
  return rows.map((row) => JSON.stringify(row)).join('\n')
}

/**
 * The bytes of all files of a Postgres database, its catalog too, as of the last checkpoint; undefined when the server is on
 * another machine.
 */
export async function relationFilesOf(place: Place): Promise<string | undefined> {
  const [row] = await place.query(
    `select current_setting('data_directory') as data, oid from pg_database where datname = current_database()`,
  )
  const folder = join(String(row?.data), 'base', String(row?.oid))
  if (!existsSync(folder)) return undefined
  return readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), 'latin1'))
    .join('')
}

/** The first hit, with the text around it. */
export function around(pattern: RegExp, text: string): string | undefined {
  const at = text.search(pattern)
  return at < 0 ? undefined : text.slice(Math.max(0, at - 40), at + 40)
}
