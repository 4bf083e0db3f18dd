import { execFileSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { brotliDecompressSync } from 'node:zlib'
import { atEnd } from './at-end.ts'

const folder = join(import.meta.dirname, 'released')

/** Unpacks the last version that was released, as scripts/released.ts keeps it. Answers the file that `node` starts. */
export function lastReleased(t: TestContext): { readonly version: string; readonly program: string } {
  const [name] = globSync('*.tar.br', { cwd: folder })
  if (name === undefined) throw new Error('scripts/released.ts has kept no version')
  const place = mkdtempSync(join(tmpdir(), 'sluice-released-'))
  atEnd(t, () => rmSync(place, { recursive: true }))
  execFileSync('tar', ['-x', '-C', place], { input: brotliDecompressSync(readFileSync(join(folder, name))) })
  const version = name.slice('sluice-'.length, -'.tar.br'.length)
  return { version, program: join(place, 'package/bin/sluice.js') }
}
