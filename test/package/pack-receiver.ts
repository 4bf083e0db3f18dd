import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '../..')

export interface Packed {
  readonly filename: string
  readonly unpackedSize: number
  readonly files: readonly { readonly path: string }[]
}

/** Packs `@sluice/receiver` into the folder, from a copy of its sources: tests of two files may pack at once. */
export async function packReceiver(folder: string): Promise<Packed> {
  const copy = mkdtempSync(join(tmpdir(), 'sluice-receiver-package-'))
  try {
    const source = join(root, 'receiver')
    cpSync(source, join(copy, 'receiver'), {
      recursive: true,
      filter: (path) => !/node_modules|dist$/.test(path.slice(source.length)),
    })
    cpSync(join(root, 'tsconfig.json'), join(copy, 'tsconfig.json'))
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
    const env = {
      ...process.env,
      PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
      NODE_OPTIONS: '',
    }
    const pack = ['pack', '--json', '--pack-destination', folder]
    const { stdout } = await promisify(execFile)('npm', pack, { cwd: join(copy, 'receiver'), env })
    // The build may say something first.
    return JSON.parse(stdout.slice(stdout.indexOf('[\n')))[0] as Packed
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}
