import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { after } from 'node:test'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '../..')

export interface Packed {
  /** The path of the package. */
  readonly filename: string
  readonly unpackedSize: number
  readonly files: readonly { readonly path: string }[]
}

let packed: Promise<Packed> | undefined
let folder = ''

after(() => {
  if (folder !== '') rmSync(folder, { recursive: true })
})

/** The package `@sluice/receiver`, packed once for all tests of this process. */
export function packReceiver(): Promise<Packed> {
  packed ??= pack()
  return packed
}

/** Packs a copy of the sources: another process may pack at the same time. */
async function pack(): Promise<Packed> {
  folder = mkdtempSync(join(tmpdir(), 'sluice-receiver-package-'))
  const source = join(root, 'receiver')
  cpSync(source, join(folder, 'receiver'), {
    recursive: true,
    filter: (path) => !/node_modules|dist$/.test(path.slice(source.length)),
  })
  cpSync(join(root, 'tsconfig.json'), join(folder, 'tsconfig.json'))
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const env = {
    ...process.env,
    PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
    NODE_OPTIONS: '',
  }
  const line = ['pack', '--json', '--pack-destination', folder]
  const { stdout } = await promisify(execFile)('npm', line, { cwd: join(folder, 'receiver'), env })
  // The build may print something first.
  const [result] = JSON.parse(stdout.slice(stdout.indexOf('[\n')))
  return { ...result, filename: join(folder, result.filename) }
}
