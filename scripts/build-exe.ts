import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { rolldown } from 'rolldown'
import { diskFolder } from '../src/assets/assets.ts'
import { buildUi } from './build-ui.ts'
import { withBlob } from './exe/elf.ts'

/**
 * Builds the single-file executable: the Node that runs this script, with the program and its files inside.
 * `npm run build:exe [-- --out FILE]`. It runs on the system and the processor that it was built on.
 */

const root = join(import.meta.dirname, '..')
const source = join(root, 'src')
/** Scripts that run in threads: each is a bundle of its own among the assets. */
const threads = ['store/sqlite/checkpoint-thread.js', 'operations/yaml-thread.ts']
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
    const main = join(folder, 'main.js')
    await bundle(join(source, 'main.ts'), main)
    const blob = join(folder, 'blob')
    const config = {
      main,
      output: blob,
      disableExperimentalSEAWarning: true,
      execArgv,
      assets: await collectAssets(folder),
    }
    writeFileSync(join(folder, 'sea.json'), JSON.stringify(config))
    execFileSync(process.execPath, ['--experimental-sea-config', join(folder, 'sea.json')], { stdio: 'pipe' })
    mkdirSync(dirname(out), { recursive: true })
    writeFileSync(out, withBlob(readFileSync(process.execPath), readFileSync(blob)))
    chmodSync(out, 0o755)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** One CommonJS file with all that the entry imports. A single-file executable of Node 24 reads no other form. */
async function bundle(input: string, file: string): Promise<void> {
  const build = await rolldown({
    input,
    platform: 'node',
    // The client of Postgres loads it only where it is installed.
    external: ['pg-native'],
    // Beside these, `import` and `require` each follow their own condition: a class of pg extends what `require` answers.
    resolve: { conditionNames: ['sluice-source'] },
    plugins: [
      {
        name: 'assets',
        resolveId: (id) => (id.endsWith('/assets/assets.ts') ? join(import.meta.dirname, 'exe/assets.ts') : undefined),
      },
    ],
    onLog(level, log, report) {
      if (level === 'warn' && log.code !== 'EVAL') throw new Error(`The bundle of ${input}: ${log.message}`)
      report(level, log)
    },
  })
  await build.write({ file, format: 'cjs', codeSplitting: false, minify: { compress: true, mangle: false } })
  await build.close()
}

/** The assets by their names: the paths of src/assets/assets.ts. */
async function collectAssets(folder: string): Promise<Record<string, string>> {
  const assets: Record<string, string> = { 'package.json': join(root, 'package.json') }
  for (const name of threads) {
    const key = name.replace(/\.ts$/, '.js')
    assets[key] = join(folder, key)
    await bundle(join(source, name), assets[key])
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
