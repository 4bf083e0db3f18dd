import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { type Run, type Workplace, workplace } from '../cli/program.ts'
import { Receiver } from '../e2e/receiver.ts'
import { PostgresProcess } from '../store/postgres-process.ts'
import { testEncryptionKey } from '../store/test-vault.ts'
import { readPage } from './pages.ts'
import { hasPrograms } from './shell.ts'

const run = promisify(execFile)
const key = 'sk_backup0123456789abcdefghijklmnop'
const accepted = { before: 120, meanwhile: 120 }

/** A server, and the load on it. */
class Served {
  readonly #server: Run
  readonly #url: string
  /** Event ids that were answered 202, in the order of the answers. */
  readonly accepted: string[] = []
  #stop = false
  #loading: Promise<unknown> = Promise.resolve()
  #more = Promise.withResolvers<void>()

  private constructor(server: Run, url: string) {
    this.#server = server
    this.#url = url
  }

  static async start(place: Workplace, settings: Readonly<Record<string, string>>): Promise<Served> {
    const env = {
      SLUICE_ADMIN_KEY: key,
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_ALLOW_NETWORKS: '127.0.0.0/8',
      ...settings,
    }
    const server = place.run('serve', env)
    return new Served(server, await server.says(/Listening on (http:\/\/\S+)/))
  }

  async call(method: string, path: string, body?: object) {
    const answer = await fetch(`${this.#url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
    })
    assert(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`)
    return JSON.parse((await answer.text()) || '{}') as { data: { eventId: string }[]; done: boolean; iterator: string }
  }

  /** Publishes on eight connections until `endLoad`. */
  beginLoad(): void {
    let n = 0
    const publish = async () => {
      while (!this.#stop) {
        const eventId = `event-${n++}`
        await this.call('POST', '/app/acme/msg', { eventType: 'a.b', eventId, payload: { eventId } })
        this.accepted.push(eventId)
        this.#more.resolve()
        this.#more = Promise.withResolvers()
      }
    }
    this.#loading = Promise.all(Array.from({ length: 8 }, publish))
  }

  async acceptedAtLeast(count: number): Promise<void> {
    while (this.accepted.length < count) {
      await Promise.race([this.#loading, this.#more.promise])
    }
  }

  async endLoad(): Promise<void> {
    this.#stop = true
    await this.#loading
  }

  async messages(): Promise<Set<string>> {
    const found = new Set<string>()
    let iterator = ''
    for (;;) {
      const page = await this.call('GET', `/app/acme/msg?limit=250${iterator}`)
      for (const { eventId } of page.data) found.add(eventId)
      if (page.done) return found
      iterator = `&iterator=${page.iterator}`
    }
  }

  async end(): Promise<void> {
    this.#server.child.kill('SIGTERM')
    assert.equal(await this.#server.ended, 0)
  }
}

/** Backs up in the middle of a load, restores, and counts. */
async function backUpUnderLoad(
  t: TestContext,
  place: Workplace,
  settings: Readonly<Record<string, string>>,
  backUp: () => Promise<void>,
  restore: () => Promise<Readonly<Record<string, string>>>,
): Promise<void> {
  const receiver = await Receiver.listen(t)
  const before = await Served.start(place, settings)
  await before.call('POST', '/app', { uid: 'acme', name: 'Acme' })
  await before.call('POST', '/app/acme/endpoint', { uid: 'busy', url: `${receiver.url}/busy` })
  await before.call('POST', '/app/acme/endpoint', { uid: 'later', url: `${receiver.url}/later` })
  await before.call('POST', '/app/acme/endpoint/later/pause', {})
  before.beginLoad()
  await before.acceptedAtLeast(accepted.before)
  const certain = [...before.accepted]
  await backUp()
  await before.acceptedAtLeast(before.accepted.length + accepted.meanwhile)
  await before.endLoad()
  await before.end()

  const restored = await restore()
  const afterwards = await Served.start(place, restored)
  const found = await afterwards.messages()
  assert.deepEqual(
    certain.filter((eventId) => !found.has(eventId)),
    [],
    'messages that were accepted before the backup began',
  )
  const all = new Set(before.accepted)
  assert.deepEqual(
    [...found].filter((eventId) => !all.has(eventId)),
    [],
    'messages that nothing published',
  )
  assert(found.size < all.size, 'the backup is older than the last messages')
  // Every restored message waits for the paused endpoint, and arrives there once.
  assert.equal(receiver.at('/later').length, 0)
  await afterwards.call('POST', '/app/acme/endpoint/later/resume', {})
  const eventIdOf = ({ body }: { readonly body: Buffer }): string => JSON.parse(body.toString()).eventId
  await receiver.until('every restored message arrives', () => receiver.at('/later').length >= found.size)
  await afterwards.end()
  assert.deepEqual(receiver.at('/later').map(eventIdOf).sort(), [...found].sort())
  t.diagnostic(`${all.size} accepted, ${certain.length} before the backup began, ${found.size} in it and delivered`)
}

/** The console blocks of a section of backup.md, without their indentation. */
function blocksOf(heading: string): string[] {
  const [, section = ''] = readPage('docs/backup.md').text.split(`\n## ${heading}\n`)
  const blocks = section.slice(0, section.indexOf('\n## ')).matchAll(/^( *)```console\n(.*?)^ *```$/gms)
  return [...blocks].map(([, indent = '', code = '']) => code.replace(new RegExp(`^${indent}`, 'gm'), ''))
}

const noSqlite = hasPrograms('bash', 'sqlite3') ? false : 'needs bash and sqlite3'

test('a backup of SQLite under load has every message that was accepted before it', { skip: noSqlite }, async (t) => {
  const place = workplace()
  for (const folder of ['backups', 'else']) mkdirSync(join(place.directory, folder))
  const [backUp = '', , moveAway = '', putBack = ''] = blocksOf('SQLite')
  const shell = async (code: string) => {
    const here = code
      .replaceAll('/backups', join(place.directory, 'backups'))
      .replaceAll('/elsewhere', join(place.directory, 'else'))
    await run('bash', ['-ec', here], { cwd: place.directory })
  }
  await backUpUnderLoad(
    t,
    place,
    {},
    () => shell(backUp),
    async () => {
      await shell(moveAway + putBack.replace('sluice serve\n', ''))
      return {}
    },
  )
})

/** The folder of a Postgres whose server and tools have one version; that of npm has no tools. */
function postgresFolder(): string | undefined {
  if (!hasPrograms('pg_config', 'bash')) return undefined
  const folder = execFileSync('pg_config', ['--bindir'], { encoding: 'utf8' }).trim()
  const needed = ['initdb', 'postgres', 'pg_dump', 'pg_restore', 'createdb']
  return needed.every((name) => existsSync(join(folder, name))) ? folder : undefined
}

const installed = postgresFolder() ?? ''
const noPostgres = installed !== '' ? false : 'needs a Postgres with its server and pg_dump'

test('a backup of Postgres under load has every message that was accepted before it', {
  skip: noPostgres,
}, async (t) => {
  const place = workplace()
  const server = await PostgresProcess.start(tmpdir(), { shared_buffers: '64MB' }, installed)
  after(() => server.remove())
  const { hostname, port, username, password } = new URL(server.url)
  const [backUp = '', restore = ''] = blocksOf('Postgres')
  const store = server.url
  const env = {
    PATH: [installed, process.env.PATH].join(delimiter),
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: username,
    PGPASSWORD: password,
    SLUICE_STORE: store,
  }
  const shell = (code: string) => run('bash', ['-ec', code], { cwd: place.directory, env })
  const settings = { SLUICE_STORE: store, SLUICE_ENCRYPTION_KEY: testEncryptionKey }
  await backUpUnderLoad(
    t,
    place,
    settings,
    async () => void (await shell(backUp)),
    async () => {
      const base = store.replace(/\/[^/]*$/, '')
      await shell(restore.replace('postgres://…', base))
      return { ...settings, SLUICE_STORE: `${base}/sluice_restored` }
    },
  )
})
