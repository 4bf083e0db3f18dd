import { existsSync, globSync, mkdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The variables by which a whole run names what it prepared once for all files: the program as a bundle, */
export const programVariable = 'TESTS_PROGRAM'
/** a file of SQLite with all tables, */
export const fileTemplateVariable = 'TESTS_SQLITE_TEMPLATE'
/** and on the shared server a database with all tables. Both are only copied. */
export const databaseTemplateVariable = 'TESTS_POSTGRES_TEMPLATE'

/** The program in its sources. Tests that look at the modules it loads start this one. */
export const sources = join(import.meta.dirname, '../src/main.ts')

/** The program that tests start: the bundle of this run, or the sources where a few files run by themselves. */
export const program = process.env[programVariable] ?? sources

/**
 * Arguments of Node for programs that live for seconds: less garbage is collected while they start, and no code is optimized
 * before it has run often. `--single-threaded-gc` would save more, and stalls a program now and then for half a minute.
 */
export const shortLived = ['--min-semi-space-size=16', '--invocation-count-for-maglev=2000'] as const

/** Arguments of Node for an attacked server, which measures itself. */
export const monitored = ['--expose-gc', '--import', join(import.meta.dirname, 'attack/monitor.ts')] as const

const dayMs = 86_400_000

/**
 * Bundles the program and the packages that it needs into a few files below `folder`. The tests start hundreds of servers,
 * and finding and linking 700 modules took half of the processor time of a start. Names of files contain the hash of their
 * content, so that runs of other checkouts can share the folder; files that no run has used for a day are removed.
 */
export async function bundleProgram(folder: string): Promise<string> {
  const { bundle } = await import('../scripts/bundle.ts')
  const name = '[name]-[hash].js'
  const form = { format: 'esm', entryFileNames: name, chunkFileNames: name } as const
  const output = await bundle(sources, form, [{ name: 'places', transform: keepPlace }])
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n')
  for (const file of output) writeOnce(join(folder, file.fileName), file.type === 'chunk' ? file.code : file.source)
  for (const old of globSync('*.js', { cwd: folder }).map((file) => join(folder, file))) {
    if (statSync(old).mtimeMs < Date.now() - dayMs) rmSync(old, { force: true })
  }
  return join(folder, output[0].fileName)
}

/** Modules find their files beside the sources. */
function keepPlace(code: string, id: string): string {
  return code.replaceAll('import.meta.dirname', JSON.stringify(dirname(id)))
}

/** Another run may read the file at any time, so that it is whole when it appears. */
function writeOnce(path: string, content: string | Uint8Array): void {
  const now = new Date()
  if (existsSync(path)) return utimesSync(path, now, now)
  const unfinished = `${path}.${process.pid}`
  writeFileSync(unfinished, content)
  renameSync(unfinished, path)
}
