import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, posix } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { newDatabase } from '../store/postgres-harness.ts'
import { testEncryptionKey } from '../store/test-vault.ts'
import { packReceiver } from './pack-receiver.ts'
import { typeProblems } from './type-check.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
// This very Node first, and nothing of the checkout: an empty project has no more than that.
const env = { ...process.env, PATH: [dirname(process.execPath), process.env.PATH].join(delimiter), NODE_OPTIONS: '' }

/** The name of a package that is imported for more than its types. */
const importedPackage = /^import (?!type).*from '((?:@[\w-]+\/)?[a-z][\w-]*)(?:\/[^']*)?'$/gm

/** Prints the paths of all loaded modules to standard error when the program ends. */
const recorder = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module'
  const loaded = []
  registerHooks({
    load(url, context, next) {
      if (url.startsWith('file:')) loaded.push(new URL(url).pathname)
      return next(url, context)
    },
  })
  process.on('exit', () => process.stderr.write('loaded: ' + JSON.stringify(loaded)))
`)}`

/** Texts that only the code of Fastify, of the client of Postgres and of OpenTelemetry contains. */
const server = /FST_ERR_|SASLInitialResponse|BatchSpanProcessor/

/** A program against the package's declarations. It is compiled, not run. */
const consumer = `
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { AppError, type Enqueued, openSluice, type Sluice, version } from 'sluice'

const sluice: Sluice = await openSluice({ store: 'sqlite:./x.db', lease: '10s', inFlight: 5, deliver: false })
const app = await sluice.applications.getOrCreate({ uid: 'acme', name: 'Acme' })
const name: string = app.name
const { id, timestamp } = await sluice.publish(app.id, { eventType: 'a', payload: new Uint8Array(1) })
const now: Enqueued = sluice.publishWith(new DatabaseSync('x.db'), 'acme', { eventType: 'a', payload: { name } })
const later: Promise<Enqueued> = sluice.publishWith(new pg.Client(), 'acme', { eventType: 'a', payload: '{}' })
const pooled: pg.PoolClient = await new pg.Pool().connect()
const alsoLater: Promise<Enqueued> = sluice.publishWith(pooled, 'acme', { eventType: 'a', payload: '{}' })
now.committed()
try {
  await sluice.close()
} catch (error) {
  if (error instanceof AppError && error.code === 'not_found') console.log(id, timestamp.getTime(), version)
}
// @ts-expect-error: a payload is an object, text or bytes
await sluice.publish('acme', { eventType: 'a', payload: 7 })
// @ts-expect-error: there is no such setting
await openSluice({ store: 'sqlite:x', inFlght: 5 })
await Promise.all([later, alsoLater])
`

describe('the package, installed in an empty project', () => {
  /** Stands for the result of `npm run build:exe`. */
  const executable = join(root, 'dist/sluice-test-exe')
  let project = ''
  let files: string[] = []
  let packed: { readonly filename: string; readonly size: number; readonly unpackedSize: number }

  before(async () => {
    project = mkdtempSync(join(tmpdir(), 'sluice-package-'))
    mkdirSync(dirname(executable), { recursive: true })
    writeFileSync(executable, '')
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', project], { cwd: root, env })
    // The build may say something first.
    const [pack] = JSON.parse(stdout.slice(stdout.indexOf('[\n')))
    packed = pack
    files = pack.files.map(({ path }: { path: string }) => path)
    writeFileSync(join(project, 'package.json'), '{ "name": "consumer", "private": true, "type": "module" }')
    const receiver = await packReceiver()
    const packages = [join(project, packed.filename), receiver.filename]
    await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', ...packages], { cwd: project, env })
  })
  after(() => {
    rmSync(project, { recursive: true })
    rmSync(executable, { force: true })
  })

  test('leaves an executable in dist alone, and does not contain it', () => {
    assert(existsSync(executable))
    assert(!files.some((path) => path.startsWith('dist/sluice-')))
  })

  test('has what it needs to run and no sources or tests', () => {
    for (const needed of [
      'bin/sluice.js',
      'bin/index.js',
      'dist/code/main.js',
      'dist/code/index.js',
      'dist/store/sqlite/checkpoint-thread.js',
      'dist/operations/yaml-thread.js',
      'dist/operations/example-answers.json',
      'dist/THIRD-PARTY-LICENSES',
      'dist/index.d.ts',
      'dist/ui/index.html',
      'dist/ui/index.html.br',
      'dist/ui/docs/retry.html',
      'dist/ui/llms.txt',
      'dist/store/sqlite/migrations/0001_schema.sql',
      'dist/store/postgres/migrations/0001_schema.sql',
      'README.md',
      'LICENSE',
    ]) {
      assert(files.includes(needed), `${needed} is missing`)
    }
    const belongs = [
      /^(package\.json|README\.md|LICENSE|CHANGELOG\.md)$/,
      /^bin\/[\w-]+\.js$/,
      /^dist\/ui\/(assets\/)?[\w.-]+\.(html|js|css|svg|txt|webmanifest|png|ico|woff2)(\.br|\.gz)?$/,
      /^dist\/ui\/docs\/((contributing|decisions)\/)?[\w.-]+\.(html|md|json|svg)(\.br)?$/,
      /^dist\/store\/(sqlite|postgres)\/migrations\/\d{4}_\w+\.sql$/,
      /^dist\/operations\/example-answers\.json$/,
      /^dist\/THIRD-PARTY-LICENSES$/,
      /^dist\/[\w/-]+\.d\.ts$/,
      /^dist\/(code\/[\w-]+|[\w/-]+-thread)\.js(\.map)?$/,
    ]
    assert.deepEqual(
      files.filter((path) => !belongs.some((pattern) => pattern.test(path))),
      [],
    )
    // Half as much again as today; a forgotten folder passes that.
    assert(packed.size < 5_000_000, `the package has ${packed.size} bytes`)
    assert(packed.unpackedSize < 18_000_000, `the files of the package have ${packed.unpackedSize} bytes`)
  })

  test('brings no other package but typebox, whose types its declarations name', () => {
    const installed = readdirSync(join(project, 'node_modules')).filter((name) => !name.startsWith('.'))
    assert.deepEqual(installed.sort(), ['@sluice', 'sluice', 'typebox'])
  })

  test('has the licence of each package that is inside', () => {
    const licences = readFileSync(join(project, 'node_modules/sluice/dist/THIRD-PARTY-LICENSES'), 'utf8')
    const sources = globSync('src/**/*.ts', { cwd: root }).map((path) => readFileSync(join(root, path), 'utf8'))
    const imported = new Set(sources.flatMap((text) => [...text.matchAll(importedPackage)].map(([, name]) => name)))
    assert(imported.size > 8, [...imported].join(' '))
    // Packages of packages, and those of the pages.
    for (const name of [...imported, 'find-my-way', 'pg-protocol', 'preact', 'uplot']) {
      assert(licences.includes(`\n${name} `), `the licence of ${name} is missing`)
    }
    assert.match(licences, /\nfastify \d[\d.]+ \(MIT\)\n\n[^=]*Permission is hereby granted/)
  })

  test('names no source map and no declaration that it does not contain', () => {
    const installed = join(project, 'node_modules/sluice')
    for (const path of files.filter((name) => /\.(js|css)$/.test(name))) {
      const [, map] = /^\/[/*][#@] sourceMappingURL=(\S+)/m.exec(readFileSync(join(installed, path), 'utf8')) ?? []
      if (map !== undefined) assert(files.includes(posix.join(posix.dirname(path), map)), `${path} names ${map}`)
    }
    const declarations = files.filter((name) => name.endsWith('.d.ts'))
    assert(declarations.length > 10)
    for (const path of declarations) {
      const text = readFileSync(join(installed, path), 'utf8')
      for (const [, name = ''] of text.matchAll(/(?:from |import\()["'](\.[^"']+)\.[jt]s["']/g)) {
        const target = posix.join(posix.dirname(path), `${name}.d.ts`)
        assert(declarations.includes(target), `${path} refers to ${target}`)
      }
    }
  })

  test('its package.json can be published with provenance', () => {
    const manifest = JSON.parse(readFileSync(join(project, 'node_modules/sluice/package.json'), 'utf8'))
    assert.deepEqual(manifest.publishConfig, { access: 'public', provenance: true })
    assert.equal(manifest.private, undefined)
    assert.equal(manifest.engines.node, '>=24')
    for (const name of ['description', 'license', 'keywords', 'exports', 'bin']) assert(manifest[name], name)
    // npm runs these on the machine of the user who installs, or asks the user for permission.
    assert.deepEqual(
      Object.keys(manifest.scripts).filter((name) => /^((pre|post)?install|prepare)$/.test(name)),
      [],
    )
  })

  test('its declarations type-check, strictly and without skipping any', async () => {
    assert.equal(await typeProblems(project, consumer), '')
  })

  test('its command runs, by npx too', async () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    const below = join(project, 'empty')
    mkdirSync(below)
    assert.equal((await run('npx', ['--no', '--', 'sluice', '--version'], { cwd: below, env })).stdout, `${version}\n`)
    const command = join(project, 'node_modules/.bin/sluice')
    const { stdout } = await run(command, ['config', '--json', '--store', 'sqlite:./x.db'], { cwd: project, env })
    const shown = JSON.parse(stdout).find(({ name }: { name: string }) => name === 'store')
    assert.equal(shown.value, 'sqlite:./x.db')
    const migrated = await run(command, ['migrate', '--store', 'sqlite:./x.db'], { cwd: project, env })
    assert.match(migrated.stdout, /has schema version \d+/)
  })

  test('its server runs, with the reference of its API', async (t) => {
    const command = join(project, 'node_modules/.bin/sluice')
    const server = spawn(command, ['serve', '--listen', '127.0.0.1:0', '--store', 'sqlite:./served.db'], {
      cwd: project,
      env,
    })
    const exited = once(server, 'exit')
    t.after(async () => {
      server.kill('SIGKILL')
      await exited
    })
    let printed = ''
    server.stdout.setEncoding('utf8').on('data', (text) => {
      printed += text
    })
    const url = await eventually('it listens', () => /Listening on (http:\S+)/.exec(printed)?.[1])
    for (const path of ['/api/v1/health', '/api/v1/openapi.json', '/docs']) {
      assert((await fetch(`${url}${path}`)).ok, path)
    }
    server.kill('SIGTERM')
    assert.deepEqual(await exited, [0, null])
  })

  test('several processes serve together on Postgres', async (t) => {
    const command = join(project, 'node_modules/.bin/sluice')
    const line = ['serve', '--processes', '2', '--listen', '127.0.0.1:0', '--store', await newDatabase()]
    const servers = spawn(command, line, { cwd: project, env: { ...env, SLUICE_ENCRYPTION_KEY: testEncryptionKey } })
    const exited = once(servers, 'exit')
    let printed = ''
    for (const stream of [servers.stdout, servers.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        printed += text
      })
    }
    atEnd(t, async () => {
      servers.kill('SIGTERM')
      await exited
    })
    const started = /"processes":2,"pids":\[\d+,\d+\]/
    await eventually('both have started', () => servers.exitCode !== null || started.test(printed))
    assert.match(printed, started)
    const [, url] = /Listening on (http:\S+)/.exec(printed) ?? []
    assert((await fetch(`${url}/api/v1/health`)).ok)
    servers.kill('SIGTERM')
    assert.deepEqual(await exited, [0, null], printed)
  })

  test('it delivers, embedded, and loads no server', async () => {
    mkdirSync(join(project, 'examples'))
    for (const name of ['quickstart.ts', 'receiver.ts']) {
      copyFileSync(join(root, 'examples', name), join(project, 'examples', name))
    }
    const line = ['--import', recorder, 'examples/quickstart.ts']
    const { stdout, stderr } = await run(process.execPath, line, { cwd: project, env })
    assert.match(stdout, /^delivered and verified: \{"video":42,"views":1000000\}$/m)
    assert.deepEqual(loadedWith(server, stderr), [])
    // The client that delivers is among them.
    assert(loadedWith(/llhttp/, stderr).length > 0)
  })

  test('the stack of an error in the log names the lines of the sources', async () => {
    const plant = "import net from 'node:net'; net.Server.prototype.address = () => { throw new Error('planted') }"
    const command = join(project, 'node_modules/sluice/bin/sluice.js')
    const planted = ['--import', `data:text/javascript,${encodeURIComponent(plant)}`, command]
    const line = [...planted, 'serve', '--local', '--store', 'sqlite::memory:', '--listen', '127.0.0.1:0']
    const { stderr } = await run(process.execPath, line, { cwd: project, env }).catch((error) => error)
    const logged = stderr.split('\n').find((text: string) => text.includes('planted')) ?? '{}'
    const { stack } = JSON.parse(logged).err
    const [, path, at] = /at boundTo \((src\/[\w/-]+\.ts):(\d+):\d+\)/.exec(stack) ?? []
    assert(path, stack)
    assert.match(readFileSync(join(root, path), 'utf8').split('\n')[Number(at) - 1] ?? '', /server\.address\(\)/)
    // A package in the bundle has no map: its frame is not taken for one of the program.
    assert.match(stack, /at async Command\.parseAsync \(\S+\/dist\/code\/main\.js:\d+:\d+\)/)
  })

  test('a command that asks a server loads no server', async () => {
    const line = [
      '--import',
      recorder,
      join(project, 'node_modules/sluice/bin/sluice.js'),
      'source',
      'create',
      '--help',
    ]
    const { stderr } = await run(process.execPath, line, { cwd: project, env })
    assert.deepEqual(loadedWith(server, stderr), [])
    assert.deepEqual(loadedWith(/llhttp/, stderr), [])
  })

  /** The loaded modules of the package whose code matches. */
  function loadedWith(code: RegExp, stderr: string): string[] {
    const modules: string[] = JSON.parse(/loaded: (\[.*\])/.exec(stderr)?.[1] ?? '')
    const own = modules.filter((path) => path.includes('/sluice/dist/'))
    assert(own.length > 0)
    return own.filter((path) => code.test(readFileSync(path, 'utf8')))
  }
})
