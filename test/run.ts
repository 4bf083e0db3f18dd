import { type ChildProcess, spawn } from 'node:child_process'
import { globSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { openPostgresServer, sharedServerVariable } from './store/postgres-server.ts'

/**
 * Runs the tests: all of them, or those whose path contains one of the arguments. All files share one Postgres server.
 *
 *     npm test                      every test
 *     npm run test:fast             the parts without processes, browsers and kills, for the inner loop
 *     npm run test:noisy            every test, beside two busy loops per core
 *     node test/run.ts test/http    the tests of one folder
 */
const folder = import.meta.dirname
const flags = new Set(process.argv.slice(2).filter((argument) => argument.startsWith('--')))
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const cores = availableParallelism()

/** Folders whose tests start processes and wait for them. They begin first, because single tests take long. */
const slowFolders = [
  'simulation',
  'e2e',
  'cli',
  'attack',
  'store/postgres',
  'package',
  'browser',
  'examples',
  'hostile',
]
/** Left out of the fast run beside the slow folders: many requests, or real servers. */
const slowFiles = /fuzz|svix-sdk|every-route|postgres\.test|store\/sqlite\/(owner|disk|migrate)/

/** The hang guard of one test. It is no limit: the slowest test takes a tenth of it on a busy machine. */
const hangMs = 20 * 60_000

const files = globSync('**/*.test.ts', { cwd: folder })
  .filter((file) => wanted.length === 0 || wanted.some((part) => join('test', file).includes(relative('.', part))))
  .filter((file) => !flags.has('--fast') || (rank(file) === slowFolders.length && !slowFiles.test(file)))
  .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b))
  .map((file) => join(folder, file))

const busy = flags.has('--noisy') ? Array.from({ length: 2 * cores }, busyLoop) : []
const server = flags.has('--fast') ? undefined : await openPostgresServer()
if (server !== undefined) process.env[sharedServerVariable] = server.url
// The tests start a thousand processes. Compiling each file once halves what a start costs (0.8 → 0.45 s for a server).
const compiled = mkdtempSync(join(tmpdir(), 'sluice-compiled-'))
process.env.NODE_COMPILE_CACHE = compiled

let failed = files.length === 0
run({ files, concurrency: cores + 1, timeout: hangMs, execArgv: [] })
  .on('test:fail', ({ todo }) => {
    if (todo === undefined || todo === false) failed = true
  })
  .compose(new spec())
  .on('end', async () => {
    for (const loop of busy) loop.kill()
    await server?.close()
    rmSync(compiled, { recursive: true, force: true, maxRetries: 5 })
    process.exitCode = failed ? 1 : 0
  })
  .pipe(process.stdout)

function rank(file: string): number {
  const at = slowFolders.findIndex((slow) => file.startsWith(`${slow}/`))
  return at < 0 ? slowFolders.length : at
}

function busyLoop(): ChildProcess {
  return spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' })
}
