import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { exeProblem } from '../../scripts/build-exe.ts'
import { copyContext } from '../deploy/files.ts'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { Receiver } from '../e2e/receiver.ts'
import { newDatabase } from '../store/postgres-harness.ts'
import { testEncryptionKey } from '../store/test-vault.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const key = 'sk_executable0123456789abcdefghijklmnopqr'

const problem = exeProblem()

describe('the single-file executable, without Node, PATH and environment', { skip: problem ?? false }, () => {
  let folder = ''
  let exe = ''

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-exe-test-'))
    exe = join(folder, 'sluice')
    // Built from no more than the Dockerfile has.
    const context = join(folder, 'context')
    copyContext(context)
    await run(process.execPath, ['scripts/build-exe.ts', '--out', exe], { cwd: context })
  })
  after(() => rmSync(folder, { recursive: true }))

  /** A directory without any file, which is also the only one that the program knows. */
  function emptyPlace(t: TestContext): string {
    const place = mkdtempSync(join(tmpdir(), 'sluice-exe-place-'))
    atEnd(t, () => rmSync(place, { recursive: true }))
    return place
  }

  const command = (cwd: string, line: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    run(exe, line, { cwd, env }).catch((error) => error as { stdout: string; stderr: string; code: number })

  async function serve(t: TestContext, cwd: string, env: Readonly<Record<string, string>> = {}) {
    const server: ChildProcess = spawn(exe, ['serve', '--local', '--listen', '127.0.0.1:0', '--store', 'sqlite:x.db'], {
      cwd,
      env,
    })
    const exited = once(server, 'exit')
    let printed = ''
    let logged = ''
    server.stdout?.setEncoding('utf8').on('data', (text) => {
      printed += text
    })
    server.stderr?.setEncoding('utf8').on('data', (text) => {
      logged += text
    })
    atEnd(t, async () => {
      server.kill('SIGKILL')
      await exited
    })
    const url = await eventually(
      'it listens',
      () => server.exitCode ?? (printed.endsWith('\n\n') && /Listening on (http:\S+)/.exec(printed)?.[1]),
    )
    assert.equal(typeof url, 'string', `it ended instead: ${logged}`)
    const made = /sk_\w+/.exec(printed)?.[0]
    const api = async (path: string, init: RequestInit & { json?: unknown } = {}) => {
      const { json, ...rest } = init
      const response = await fetch(`${url}/api/v1${path}`, {
        ...rest,
        ...(json !== undefined && { method: 'POST', body: JSON.stringify(json) }),
        headers: { authorization: `Bearer ${made ?? key}`, 'content-type': 'application/json' },
      })
      const text = await response.text()
      assert(response.ok, `${path}: ${text}`)
      return JSON.parse(text)
    }
    return { server, exited, url: url as string, api, printed: () => printed, logged: () => logged, made: made ?? key }
  }

  test('names its version, its commands and a mistake', async (t) => {
    const place = emptyPlace(t)
    assert.equal((await command(place, ['--version'])).stdout, `${version}\n`)
    assert.match((await command(place, ['--help'])).stdout, /^Usage: sluice /)
    const mistake = await command(place, ['serv'])
    assert.match(mistake.stderr, /serve/)
    assert.equal((mistake as unknown as { code: number }).code, 2)
  })

  test('serves, publishes, delivers and shows its pages; its threads run', async (t) => {
    const place = emptyPlace(t)
    const receiver = await Receiver.listen(t)
    const { api, url, made, server, exited, printed, logged } = await serve(t, place)
    // The banner's commands begin as the program was called, because the machine has no npx.
    assert(printed().includes(`${exe} listen --app demo`), printed())

    await api('/app', { json: { uid: 'acme', name: 'Acme' } })
    await api('/app/acme/endpoint', { json: { uid: 'main', url: `${receiver.url}/in` } })
    for (let i = 0; i < 40; i++) {
      await api('/app/acme/msg', { json: { eventType: 'a.b', eventId: `m${i}`, payload: { i, exact: 1 } } })
    }
    await receiver.until(
      'all messages arrive',
      () => new Set(receiver.at('/in').map(({ body }) => `${body}`)).size === 40,
    )
    assert(receiver.at('/in').every(({ headers }) => headers['webhook-signature']?.startsWith('v1,')))

    const page = await (await fetch(`${url}/`, { headers: { accept: 'text/html' } })).text()
    const script = /src="(\/assets\/[^"]+\.js)"/.exec(page)?.[1]
    assert(script, page)
    const asset = await fetch(url + script, { headers: { 'accept-encoding': 'br' } })
    assert.equal(asset.headers.get('content-encoding'), 'br')
    assert((await asset.text()).length > 1000)
    assert.equal((await api('/openapi.json')).info.title, 'Sluice API')
    assert.match(
      await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${made}` } })).text(),
      /^sluice_/m,
    )

    // YAML is parsed in a thread. The other one copies the log; its failure would be a line in the log.
    const specRaw =
      'openapi: 3.1.0\ninfo: {title: T, version: "1"}\nwebhooks:\n  invoice.paid: {post: {description: Paid}}\n'
    const { data } = await api('/event-type/import/openapi', { json: { specRaw } })
    assert.deepEqual(data.modified, ['invoice.paid'])
    assert.doesNotMatch(logged(), /"level":[456]0/)

    const env = { SLUICE_URL: url, SLUICE_API_KEY: made }
    assert.match((await command(place, ['doctor'], env)).stdout, /^(Healthy|\d+ findings?)/)
    assert.match((await command(place, ['messages', 'acme', 'm7'], env)).stdout, /main .*success/)
    assert.match((await command(place, ['openapi'], env)).stdout, /"openapi"/)

    server.kill('SIGTERM')
    assert.deepEqual(await exited, [0, null])
    assert.match((await command(place, ['migrate', '--store', 'sqlite:x.db'])).stdout, /has schema version \d+/)
  })

  test('opens a database of Postgres', async (t) => {
    const line = ['migrate', '--store', await newDatabase()]
    const { stdout, stderr } = await command(emptyPlace(t), line, { SLUICE_ENCRYPTION_KEY: testEncryptionKey })
    assert.match(stdout, /has schema version \d+/, stderr)
  })

  test('goes on after it was killed', async (t) => {
    const place = emptyPlace(t)
    const receiver = await Receiver.listen(t)
    let isUp = false
    receiver.behave('/in', () => ({ status: isUp ? 200 : 503 }))
    const first = await serve(t, place, { SLUICE_ADMIN_KEY: key })
    await first.api('/app', { json: { uid: 'acme', name: 'Acme' } })
    const retry = { waits: { kind: 'list', ms: Array.from({ length: 50 }, () => 1000) } }
    await first.api('/app/acme/endpoint', { json: { url: `${receiver.url}/in`, retry } })
    const { id } = await first.api('/app/acme/msg', { json: { eventType: 'a.b', payload: { once: true } } })
    await receiver.until('it is tried', () => receiver.at('/in').length > 0)
    first.server.kill('SIGKILL')
    await first.exited
    isUp = true
    await serve(t, place, { SLUICE_ADMIN_KEY: key })
    await receiver.until('it is delivered', () =>
      receiver.at('/in').some(({ status, headers }) => status === 200 && headers['webhook-id'] === id),
    )
  })
})
