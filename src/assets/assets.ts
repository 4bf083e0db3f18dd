import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Worker, type WorkerOptions } from 'node:worker_threads'

/**
 * The files that belong to the program and are no modules: migrations, pages, example answers and the scripts of threads.
 * Every part reads them through this module, because the single-file executable has no disk to read them from: its build
 * puts scripts/exe/assets.ts, which exports the same, in the place of this file.
 */

/** The folder of the code: `src` in a checkout, `dist` in the package. */
const code = join(import.meta.dirname, '..')

/** A folder of the program, by its path below the folder of the code. */
export function programFolder(path: string): Folder {
  return diskFolder(join(code, path))
}

/** The built pages: in the package beside the code, in a checkout where `npm run build:ui` puts them, or in a given folder. */
export function pagesFolder(other?: string): Folder {
  if (other !== undefined) return diskFolder(other)
  const beside = programFolder('ui')
  return beside.names.length > 0 ? beside : diskFolder(join(code, '../ui/dist'))
}

/** The text of package.json, which lies at the same distance from `src` and from `dist`. */
export function packageText(): string {
  return readFileSync(join(code, '../package.json'), 'utf8')
}

/** The map of a file of the bundle, by its path; undefined for other files, such as sources. */
export function mapOf(path: string): string | undefined {
  const map = `${path}.map`
  return path.startsWith(code) && existsSync(map) ? readFileSync(map, 'utf8') : undefined
}

/** Starts the thread of a script, by its path below the folder of the code and without its ending. */
export function startThread(path: string, options: WorkerOptions): Worker {
  const file = [`${path}.js`, `${path}.ts`].map((name) => join(code, name)).find((name) => existsSync(name))
  if (file === undefined) throw new Error(`The program lacks the script of the thread ${path}.`)
  // No flag of the process reaches the thread: those for memory would apply to its small heap.
  return new Worker(pathToFileURL(file), { ...options, execArgv: [] })
}

/** Files by their paths below a folder, with `/` on every system. */
export interface Folder {
  /** Empty when the folder does not exist. */
  readonly names: readonly string[]
  read(name: string): Buffer
}

/** A folder on the disk. */
export function diskFolder(path: string): Folder {
  const names = existsSync(path)
    ? readdirSync(path, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(join(path, '/').length).replaceAll('\\', '/'))
    : []
  return { names: names.sort(), read: (name) => readFileSync(join(path, name)) }
}
