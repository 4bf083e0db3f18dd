import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Files by their paths below a folder, with `/` on every system. */
export interface Folder {
  /** Empty when the folder does not exist. */
  readonly names: readonly string[]
  read(name: string): Buffer
}

export function diskFolder(path: string): Folder {
  const names = existsSync(path)
    ? readdirSync(path, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(join(path, '/').length).replaceAll('\\', '/'))
    : []
  return { names: names.sort(), read: (name) => readFileSync(join(path, name)) }
}
