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
import { type Licensed, licenceOfNode, shippedPackages, thirdPartyLicences } from './licences.ts'

/**
 * Builds the single-file executable: Node with the program and its files inside. `npm run build:exe [-- --out FILE] [--node NODE]`.
 * NODE is the program of another processor, in the same version; without it the executable contains the Node that runs
 * this script. FILE-licenses has the licences of everything inside.
 */

const root = join(import.meta.dirname, '..')
const source = join(root, 'src')
/** The flags of bin/sluice.js. */
const execArgv = ['--min-semi-space-size=12', '--max-semi-space-size=12', '--heap-growing-percent=100']

/** Node writes the executable itself since 25.5, also for macOS. */
const canBuildSea = Number.parseInt(process.versions.node, 10) > 25

/** Why no executable can be built here; undefined when it can. */
export function exeProblem(): string | undefined {
  if (process.platform !== 'linux' && !canBuildSea)
    return 'Node 24 builds executables on Linux only; Node 26 everywhere'
  if (!['x64', 'arm64'].includes(process.arch)) return `no executable is built for the processor ${process.arch}`
  return undefined
}

/** Builds it, and answers the packages whose code is inside. */
export async function buildExe(out: string, node: string = process.execPath): Promise<Licensed[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-exe-'))
  try {
    await buildUi()
    const packages = new Set<string>()
    const main = join(folder, 'main.js')
    await place(join(source, 'main.ts'), main, packages)
    const blob = join(folder, 'blob')
    const config = {
      main,
      output: canBuildSea ? out : blob,
      ...(canBuildSea && { executable: node }),
      disableExperimentalSEAWarning: true,
      execArgv,
      // Code that V8 has compiled before: a start takes a third less. It fits the processor that compiled it.
      useCodeCache: node === process.execPath,
      assets: await collectAssets(folder, packages),
    }
    writeFileSync(join(folder, 'sea.json'), JSON.stringify(config))
    mkdirSync(dirname(out), { recursive: true })
    const flag = canBuildSea ? '--build-sea' : '--experimental-sea-config'
    // V8 refuses code that was compiled under other flags.
    execFileSync(process.execPath, [...execArgv, flag, join(folder, 'sea.json')], { stdio: 'pipe' })
    if (!canBuildSea) writeFileSync(out, withBlob(readFileSync(node), readFileSync(blob)))
    chmodSync(out, 0o755)
    // macOS starts no program without a signature; this one has no name in it.
    if (process.platform === 'darwin') execFileSync('codesign', ['--force', '--sign', '-', out], { stdio: 'pipe' })
    const licences = [thirdPartyLicences(packages, join(root, 'ui/dist')), '='.repeat(80), licenceOfNode()]
    writeFileSync(`${out}-licenses`, licences.join('\n'))
    return shippedPackages(packages, join(root, 'ui/dist'))
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
  const { values } = parseArgs({ options: { out: { type: 'string' }, node: { type: 'string' } } })
  const problem = exeProblem()
  if (problem !== undefined) {
    console.error(`Cannot build the executable: ${problem}.`)
    process.exit(1)
  }
  const out = resolve(values.out ?? join(root, 'dist', `sluice-${process.platform}-${process.arch}`))
  await buildExe(out, values.node)
  console.log(out)
}
