import { execFileSync } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'

/**
 * Keeps the program of a package for test/e2e/rolling.test.ts, which runs it beside this version on one database: without its
 * pages, documentation and declarations, which are two thirds of it.
 *
 *     node scripts/released.ts sluice-0.1.0.tgz
 */
const [tarball] = process.argv.slice(2)
if (tarball === undefined) {
  console.error('Name the package that was published, as `npm pack sluice@VERSION` brings it.')
  process.exit(2)
}

const unneeded = ['dist/ui', 'dist/docs', 'dist/*.d.ts', 'dist/**/*.d.ts', 'dist/**/*.map', '*.md']
const folder = join(import.meta.dirname, '../test/e2e/released')
const place = mkdtempSync(join(tmpdir(), 'sluice-released-'))
try {
  execFileSync('tar', ['-xzf', tarball, '-C', place])
  const root = join(place, 'package')
  for (const name of globSync(unneeded, { cwd: root })) rmSync(join(root, name), { recursive: true, force: true })
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  // The same input gives the same bytes.
  const order = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner']
  const packed = execFileSync('tar', ['-c', ...order, '-C', place, 'package'], { maxBuffer: 2 ** 28 })
  const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_SIZE_HINT]: packed.length }
  mkdirSync(folder, { recursive: true })
  for (const old of globSync('*.tar.br', { cwd: folder })) rmSync(join(folder, old))
  const file = join(folder, `sluice-${version}.tar.br`)
  writeFileSync(file, brotliCompressSync(packed, { params }))
  console.log(file)
} finally {
  rmSync(place, { recursive: true })
}
