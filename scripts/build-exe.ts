import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { Plugin } from 'rolldown'
import { diskFolder } from '../src/assets/assets.ts'
import { buildUi } from './build-ui.ts'
import { bundle, latinOnly, mapsOfTheProgram, packagesIn, shipped, threads } from './bundle.ts'
import { withBlob } from './exe/elf.ts'
import { licenceOfNode, thirdPartyLicences } from './licences.ts'

/**
 * Builds the single-file executable: the Node that runs this script, with the program and its files inside.
 * `npm run build:exe [-- --out FILE]`. It runs on the system and the processor that it was built on. FILE-licenses has the
 * licences of everything inside.
 */

const root = join(import.meta.dirname, '..')
const source = join(root, 'src')
/** The flags of bin/sluice.js. */
const execArgv = ['--min-semi-space-size=12', '--max-semi-space-size=12', '--heap-growing-percent=100']

/** Why no executable can be built here; undefined when it can. */
export function exeProblem(): string | undefined {
  if (process.platform !== 'linux') return 'Node 24 builds single-file executables by itself on Linux only'
  if (!['x64', 'arm64'].includes(process.arch)) return `no executable is built for the processor ${process.arch}`
  return undefined
}

export async function buildExe(out: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-exe-'))
  try {
    await buildUi()
    const packages = new Set<string>()
    const main = join(folder, 'main.js')
    await place(join(source, 'main.ts'), main, packages)
    const blob = join(folder, 'blob')
    const config = {
      main,
      output: blob,
      disableExperimentalSEAWarning: true,
      execArgv,
      // Code that V8 has compiled before: a start takes a third less.
      useCodeCache: true,
      assets: await collectAssets(folder, packages),
    }
    writeFileSync(join(folder, 'sea.json'), JSON.stringify(config))
    // V8 refuses code that was compiled under other flags.
    execFileSync(process.execPath, [...execArgv, '--experimental-sea-config', join(folder, 'sea.json')], {
      stdio: 'pipe',
    })
    mkdirSync(dirname(out), { recursive: true })
    writeFileSync(out, withBlob(readFileSync(process.execPath), readFileSync(blob)))
    chmodSync(out, 0o755)
    const licences = [thirdPartyLicences(packages, join(root, 'ui/dist')), '='.repeat(80), licenceOfNode()]
    writeFileSync(`${out}-licenses`, licences.join('\n'))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** In place of src/assets/assets.ts, one that reads what the executable contains. */
const assetsInside: Plugin = {
  name: 'assets',
  resolveId: (id) => (id.endsWith('/assets/assets.ts') ? join(import.meta.dirname, 'exe/assets.ts') : undefined),
}

/** One CommonJS file with all that the entry imports, and its map. A single-file executable of Node 24 reads no other form. */
async function place(input: string, file: string, packages: Set<string>): Promise<void> {
  const form = { format: 'cjs', entryFileNames: basename(file), codeSplitting: false } as const
  const output = await bundle(input, { ...shipped, ...form }, [assetsInside, mapsOfTheProgram])
  for (const name of packagesIn(output)) packages.add(name)
  mkdirSync(dirname(file), { recursive: true })
  for (const part of output) {
    writeFileSync(join(dirname(file), part.fileName), part.type === 'chunk' ? latinOnly(part.code) : part.source)
  }
}

/** The assets by their names: the paths of src/assets/assets.ts. */
async function collectAssets(folder: string, packages: Set<string>): Promise<Record<string, string>> {
  const assets: Record<string, string> = {
    'package.json': join(root, 'package.json'),
    'main.js.map': join(folder, 'main.js.map'),
  }
  for (const name of threads) {
    const key = name.replace(/\.ts$/, '.js')
    assets[key] = join(folder, key)
    await place(join(source, name), assets[key], packages)
  }
  for (const name of diskFolder(source).names) {
    if (!/\.(ts|js)$/.test(name)) assets[name] = join(source, name)
  }
  for (const name of diskFolder(join(root, 'ui/dist')).names) {
    if (!name.startsWith('.')) assets[`ui/${name}`] = join(root, 'ui/dist', name)
  }
  return assets
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { out: { type: 'string' } } })
  const problem = exeProblem()
  if (problem !== undefined) {
    console.error(`Cannot build the executable: ${problem}.`)
    process.exit(1)
  }
  const out = resolve(values.out ?? join(root, 'dist', `sluice-${process.platform}-${process.arch}`))
  await buildExe(out)
  console.log(out)
}
