import { hash } from 'node:crypto'
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { extname, join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

const root = join(import.meta.dirname, '..')
const ui = join(root, 'ui')
const dist = join(ui, 'dist')
const stampFile = join(dist, '.sources')
const compressible = new Set(['.html', '.js', '.css', '.svg', '.json', '.txt', '.webmanifest', '.map', '.md'])

/**
 * Builds the dashboard, the portal and the documentation into ui/dist, and compresses their files. A build of the same sources is left as it
 * is, so that a server or a test that reads it meanwhile finds every file.
 */
export async function buildUi(): Promise<void> {
  const stamp = stampOf()
  if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp) return
  const { build } = await import('vite')
  await build({ configFile: join(ui, 'vite.config.ts'), logLevel: 'warn' })
  const { writeSite } = await import('./site/site.ts')
  writeSite(dist)
  for (const name of globSync('**/*', { cwd: dist })) {
    if (!compressible.has(extname(name))) continue
    const path = join(dist, name)
    const bytes = readFileSync(path)
    const variants = {
      br: brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
      // The pages of the documentation are many and small: a reader without Brotli gets them plain.
      ...(!name.startsWith('docs/') && { gz: gzipSync(bytes, { level: 9 }) }),
    }
    for (const [ending, packed] of Object.entries(variants)) {
      if (packed.length < bytes.length) writeFileSync(`${path}.${ending}`, packed)
    }
  }
  writeFileSync(stampFile, stamp)
}

/** The sources that the build depends on, as one hash. */
function stampOf(): string {
  const names = globSync('**/*', { cwd: ui, exclude: (name) => name === 'dist' || name === 'node_modules' })
  const files = [
    ...names.filter((name) => extname(name) !== '').map((name) => join('ui', name)),
    'package-lock.json',
    'package.json',
    'CHANGELOG.md',
    'CONTRIBUTING.md',
    ...globSync('docs/**/*.{md,svg,png}', { cwd: root }),
    ...globSync('scripts/{build-ui,site/*}.ts', { cwd: root }),
  ]
  const texts = files.sort().map((name) => `${name} ${hash('sha256', readFileSync(join(root, name)))}`)
  return hash('sha256', texts.join('\n'))
}

/** `npm ci --omit=dev` installs no Vite, and runs this script. A server without its pages says so under `/`. */
function hasVite(): boolean {
  try {
    createRequire(import.meta.url).resolve('vite/package.json')
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error
    return false
  }
}

if (import.meta.main) {
  if (hasVite()) await buildUi()
  else console.warn('The dashboard is not built: its tools are development dependencies, which are not installed.')
}
