import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { availableParallelism, freemem, tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { buildUi } from '../scripts/build-ui.ts'
import { coverageTable } from './coverage.ts'
import { costVariable, processorSeconds } from './preload.ts'
import {
  bundleProgram,
  databaseTemplateVariable,
  fileTemplateVariable,
  monitored,
  programVariable,
  shortLived,
} from './prepared.ts'
import { openPostgresServer, type PostgresServer, sharedServerVariable } from './store/postgres-server.ts'
import { testEncryptionKey } from './store/test-key.ts'

/**
 * Runs the tests: all of them, or those whose path contains one of the arguments. All files share one Postgres server.
 *
 *     npm test                      types, lint and every test (--checked)
 *     npm run test:fast             types, lint, and the parts without processes, browsers, kills and Postgres: the inner loop
 *     npm run test:noisy            every test, beside two busy loops per core
 *     node test/run.ts test/http    the tests of one folder
 *     node test/run.ts --prepared test/e2e     the same, with the program as a bundle, as a whole run has it
 *     node test/run.ts --cost       every test, and then the processor time of each process of tests (Linux)
 *     npm run coverage              every test, and then the lines and branches of each folder that ran
 */
const folder = import.meta.dirname
const flags = new Set(process.argv.slice(2).filter((argument) => argument.startsWith('--')))
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const isFast = flags.has('--fast')
const cores = availableParallelism()

/** The files and folders that take longest. They begin first, so that no core waits for one of them at the end. */
const longest = [
  'attack',
  'browser',
  'simulation/simulation.test.ts',
  'e2e/order.test.ts',
  'e2e/fleet.test.ts',
  'http/fuzz.test.ts',
  'store/postgres.test.ts',
  'cli/drain.test.ts',
  'docs/backup-load.test.ts',
  'e2e/kill-while-publishing.test.ts',
  // Both wait more than they compute: 68 s and 61 s for 2 s and 15 s of processor time on a busy machine.
  'edge/sweep.test.ts',
  'edge/end-to-end.test.ts',
  // Two more that wait: 39 s and 24 s, of which they compute a fifth.
  'engine/erasure.test.ts',
  'metrics/exact.test.ts',
  'http/fuzz-postgres.test.ts',
  'http',
]
/** Folders whose tests start processes and wait for them, and then the rest of those that only compute. */
const slowFolders = [
  'e2e',
  'faults',
  'cli',
  'attack',
  'store/postgres',
  'simulation',
  'package',
  'browser',
  'examples',
  'hostile',
  'library',
  'edge',
]
/** Left out of the fast run beside the slow folders: many requests, or real servers. */
const slowFiles =
  /docs\/(walkthrough|backup)|deploy\/|receiver\/(reference|once|runtimes|kills)|fuzz|every-route|postgres\.test|validation-cost|damaged-records|sealing|written-before|store\/sqlite\/(owner|disk|migrate|checkpointer)|operations\/doctor\.test|ui\/snippets|http\/examples|engine\/bounds|intake\/shedding/

/** Files with a process of their own: they measure, or take so long that others begin beside them. */
const ownProcess =
  /docs\/(walkthrough|backup)|receiver\/(reference|runtimes|kills)|fuzz|postgres\.test|validation-cost|operations\/doctor\.test|ui\/snippets|engine\/bounds|intake\/shedding/

/** Tests that build the pages, where they are not built. */
const usesPages = /^(browser|deploy|package|ui)\//

/** The hang guard of one test. It is no limit: the slowest test takes a tenth of it on a busy machine. */
const hangMs = 20 * 60_000

/**
 * Folders whose files share processes, and how many files do: loading the code takes half a second, more than most of their
 * tests. Fewer share one where they wait for other processes, so that others can compute meanwhile. All files of `browser`
 * share one browser, and all of `attack` the servers that they attack.
 */
const sharing: readonly { readonly folders: readonly string[]; readonly files: number }[] = [
  { folders: ['domain', 'json', 'wire', 'shaping', 'runtime', 'sources', 'bench'], files: 25 },
  { folders: ['compose', 'sender', 'intake', 'engine', 'leader', 'metrics', 'operations'], files: 25 },
  { folders: ['http'], files: 22 },
  { folders: ['store', 'store/sqlite'], files: 20 },
  { folders: ['store/postgres'], files: 12 },
  { folders: ['docs', 'deploy', 'receiver', 'ui'], files: 25 },
  { folders: ['hostile', 'library'], files: 12 },
  { folders: ['package'], files: 5 },
  { folders: ['browser'], files: 20 },
  { folders: ['cli'], files: 12 },
  { folders: ['e2e'], files: 8 },
  { folders: ['edge'], files: 4 },
  { folders: ['attack'], files: 30 },
  { folders: ['faults'], files: 3 },
]

const found = globSync('**/*.test.ts', { cwd: folder })
  .filter((file) => wanted.length === 0 || wanted.some((part) => join('test', file).includes(relative('.', part))))
  .filter((file) => !isFast || (rank(file) === slowFolders.length && !slowFiles.test(file) && !usesPostgres(file)))
  .sort((a, b) => a.localeCompare(b))

const temporary = mkdtempSync(join(fastestFolder(), 'sluice-tests-'))
// Postgres does not run as root, and its files are below.
chmodSync(temporary, 0o711)
process.env.TMPDIR = temporary
// The tests start hundreds of processes. Compiling each file once halves the cost of a start.
const cache = join(folder, '../node_modules/.cache/sluice-tests')
process.env.NODE_COMPILE_CACHE = cache
// Two processes of tests that build the pages at once take files away from each other.
if (found.some((file) => usesPages.test(file))) await buildUi()
// Beside the preparation and the tests: none of them uses all cores all the time.
const checks = isFast || flags.has('--checked') ? ['types', 'lint'].map(check) : []
// Coverage is of the sources, which a bundle is not.
const isPrepared = ((wanted.length === 0 && !isFast) || flags.has('--prepared')) && !flags.has('--coverage')
const compiled = isPrepared ? Promise.all([compileBundle(), compileSources()]) : undefined
const busy = flags.has('--noisy') ? Array.from({ length: 2 * cores }, busyLoop) : []
const server = isFast ? undefined : await openPostgresServer()
if (server !== undefined) process.env[sharedServerVariable] = server.url
const [program] = (await compiled) ?? []
if (program !== undefined) await prepare(program)

const costs = join(temporary, 'costs')
if (flags.has('--cost')) {
  writeFileSync(costs, '')
  process.env[costVariable] = costs
}
// On the disk: each of some hundred processes leaves a few megabytes.
const covered = flags.has('--coverage') ? directoryOnDisk() : undefined
if (covered !== undefined) process.env.NODE_V8_COVERAGE = covered

let failed = found.length === 0
run({
  files: processes(found),
  // Most tests wait for other processes much of the time: two files beside the cores left an eighth of them idle.
  concurrency: cores + 4,
  timeout: hangMs,
  // With more room for young objects, a process of tests collects less garbage: 6 % less processor time for test/http.
  execArgv: ['--import', join(folder, 'preload.ts'), '--min-semi-space-size=16'],
})
  .on('test:fail', ({ todo }) => {
    if (todo === undefined || todo === false) failed = true
  })
  .compose(new spec())
  .on('end', async () => {
    for (const loop of busy) loop.kill()
    const before = flags.has('--cost') ? processorSeconds() : 0
    await server?.close()
    // The complaints themselves stand above, among the tests.
    for (const [i, passed] of (await Promise.all(checks)).entries()) {
      if (passed) continue
      failed = true
      console.error(`npm run ${['types', 'lint'][i]} failed`)
    }
    if (flags.has('--cost')) console.log(costTable(processorSeconds() - before))
    if (covered !== undefined) {
      console.log(coverageTable(covered, join(folder, '..')))
      rmSync(covered, { recursive: true })
    }
    rmSync(temporary, { recursive: true, force: true, maxRetries: 5 })
    process.exitCode = failed ? 1 : 0
  })
  .pipe(process.stdout)

function rank(file: string): number {
  const at = slowFolders.findIndex((slow) => file.startsWith(`${slow}/`))
  return at < 0 ? slowFolders.length : at
}

/** Where a file stands among the longest ones, behind which all others come. */
function turn(file: string): number {
  const at = longest.findIndex((long) => long === file || long === dirname(file))
  return at < 0 ? longest.length : at
}

/** Compiles the sources into the cache, for the tests that import them. */
async function compileSources(): Promise<void> {
  const imports = ['compose/parts.ts', 'cli/program.ts'].map((file) => join(folder, '../src', file))
  const script = imports.map((file) => `await import(${JSON.stringify(file)})`).join('\n')
  await once(spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' }), 'exit')
}

/**
 * Bundles the program, and compiles the bundle into the cache. Each set of arguments of Node has compiled code of its own
 * there.
 */
async function compileBundle(): Promise<string> {
  const program = await bundleProgram(join(cache, 'program'))
  await Promise.all([startOnce(program, shortLived), startOnce(program, monitored)])
  return program
}

/**
 * Starts and stops a server, which adds its compiled code to the cache. Most servers of the tests are killed, and a killed
 * process adds nothing.
 */
async function startOnce(program: string, nodeArguments: readonly string[]): Promise<void> {
  const line = [...nodeArguments, program, 'serve', '--store', 'sqlite::memory:', '--listen', '127.0.0.1:0']
  const server = spawn(process.execPath, line, {
    cwd: temporary,
    env: { ...process.env, SLUICE_LOG_LEVEL: 'error' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  server.stdout.setEncoding('utf8').on('data', (text) => {
    printed += text
    if (printed.includes('Listening on')) server.kill('SIGTERM')
  })
  await once(server, 'exit')
}

/** Names the bundle to the files, and makes the stores that they copy: making the tables takes longer than a copy. */
async function prepare(program: string): Promise<void> {
  const file = join(temporary, 'template.db')
  const database = await (server as PostgresServer).createDatabase()
  const made = [`sqlite:${file}`, database].map((store) =>
    once(
      spawn(process.execPath, [...shortLived, program, 'migrate', '--store', store], {
        cwd: temporary,
        env: { ...process.env, SLUICE_ENCRYPTION_KEY: testEncryptionKey },
        stdio: ['ignore', 'ignore', 'inherit'],
      }),
      'exit',
    ),
  )
  for (const [code] of await Promise.all(made)) if (code !== 0) throw new Error('a store for the tests was not made')
  process.env[programVariable] = program
  process.env[fileTemplateVariable] = file
  process.env[databaseTemplateVariable] = database
}

/** The files to run: each by itself, or one that imports the files that share a process. */
function processes(files: readonly string[]): string[] {
  const sharesOf = (file: string) => sharing.find(({ folders }) => folders.includes(dirname(file)))
  const isAlone = (file: string) => longest.includes(file) || ownProcess.test(file) || needsOwnServer(file)
  const groups = Map.groupBy(files, (file) => (isAlone(file) ? undefined : sharesOf(file)))
  const alone = groups.get(undefined) ?? []
  groups.delete(undefined)
  const shared = [...groups].flatMap(([shares, members]) => {
    // As many processes as are needed, each with every so manyth file: neighbours are often alike, and long together.
    const count = Math.ceil(members.length / (shares?.files ?? 1))
    return Array.from({ length: count }, (_, n) => {
      const path = join(temporary, `${shares?.folders.join('-').replaceAll('/', '-')}-${n + 1}.mjs`)
      const share = members.filter((_, i) => i % count === n)
      writeFileSync(path, share.map((file) => `import ${JSON.stringify(join(folder, file))}\n`).join(''))
      return { path, first: share[0] as string }
    })
  })
  const all = [...alone.map((file) => ({ path: join(folder, file), first: file })), ...shared]
  const later = (a: string, b: string) => turn(a) - turn(b) || rank(a) - rank(b)
  return all.sort((a, b) => later(a.first, b.first)).map(({ path }) => path)
}

/** Whether a script of package.json ends well. */
async function check(name: string): Promise<boolean> {
  const [code] = await once(spawn(`npm run -s ${name}`, { stdio: 'inherit', shell: true }), 'exit')
  return code === 0
}

/** Files with tests on Postgres: each opens databases on the shared server. */
function usesPostgres(file: string): boolean {
  return /(postgres-(harness|server)|e2e\/place)\.ts/.test(readFileSync(join(folder, file), 'utf8'))
}

/** Files that stop their Postgres server: the others of their process would lose it. */
function needsOwnServer(file: string): boolean {
  return readFileSync(join(folder, file), 'utf8').includes('useOwnServer()')
}

/** The processor seconds of each process of tests with its children, and of the shared Postgres server. */
function costTable(postgres: number): string {
  const lines = readFileSync(costs, 'utf8').trimEnd().split('\n')
  const rows = lines.map((line) => {
    const [seconds, path] = line.split(' ') as [string, string]
    return { seconds: Number(seconds), name: relative(path.startsWith(temporary) ? temporary : folder, path) }
  })
  rows.push({ seconds: postgres, name: 'the shared Postgres server' })
  rows.push({ seconds: rows.reduce((sum, { seconds }) => sum + seconds, 0), name: 'together' })
  return rows
    .sort((a, b) => b.seconds - a.seconds)
    .map(({ seconds, name }) => `${seconds.toFixed(1).padStart(8)} s  ${name}`)
    .join('\n')
}

function directoryOnDisk(): string {
  const above = join(folder, '../node_modules/.cache')
  mkdirSync(above, { recursive: true })
  return mkdtempSync(join(above, 'coverage-'))
}

/** Memory, where there is enough: the tests sync thousands of times, and none of them cuts the power. */
function fastestFolder(): string {
  const enough = 6 * 2 ** 30
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    if (bavail * bsize > enough && freemem() > enough) return '/dev/shm'
  } catch {
    // This system has no such folder.
  }
  return tmpdir()
}

function busyLoop(): ChildProcess {
  return spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' })
}
