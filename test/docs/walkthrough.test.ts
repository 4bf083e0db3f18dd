import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { sqlitePlace } from '../e2e/place.ts'
import { apiKey, Program } from '../e2e/program.ts'
import { codeOf, readPage, root } from './pages.ts'
import { hasPrograms, Shell } from './shell.ts'

const skip = hasPrograms('bash', 'curl') ? false : 'needs bash and curl'

/** Ports of receivers in the pages. They may be taken on this machine. */
const printedPorts = ['9000', '9100']

async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return String(port)
}

/** Runs every shell block of a page in its order, and compares the output that the page shows behind a block. */
async function walkThrough(t: TestContext, path: string) {
  const ports = await Promise.all(printedPorts.map(async (port) => [port, await freePort()] as const))
  // Nothing leaves this machine.
  const atHome = (code: string) => code.replace(/https:\/\/[\w.]*example\.com/g, 'http://127.0.0.1:9')
  const adapt = (code: string) => ports.reduce((text, [port, free]) => text.replaceAll(port, free), atHome(code))
  const server = await startServer(t)
  const shell = new Shell(t, { SLUICE_URL: origin(server), SLUICE_API_KEY: apiKey })
  const { blocks } = readPage(path)
  let ran = 0
  for (const [index, { language, code }] of blocks.entries()) {
    if (language !== 'sh') continue
    const next = blocks[index + 1]
    ran++
    if (next !== undefined && ['', 'json'].includes(next.language)) await shell.prints(adapt(code), next.code)
    else await shell.run(adapt(code))
  }
  return ran
}

test('tutorial.md runs as printed', { skip }, async (t) => {
  assert.ok((await walkThrough(t, 'docs/tutorial.md')) > 10)
})

test('api.md runs as printed', { skip }, async (t) => {
  assert.ok((await walkThrough(t, 'docs/api.md')) > 5)
})

test('tutorial.md shows the example as it is', () => {
  const example = readFileSync(join(root, 'examples/tenants.ts'), 'utf8')
  assert.ok(readPage('docs/tutorial.md').blocks.some(({ code }) => code === example))
})

test('the script in svix.md copies the configuration, and copies it once', async (t) => {
  const [script = ''] = codeOf('docs/svix.md', 'js')
  const [from, to] = await Promise.all([startServer(t), startServer(t)])
  const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
  await call(from, 'POST', '/event-type', { name: 'invoice.paid', description: 'paid' })
  await call(from, 'POST', '/app', { uid: 'acme', name: 'Acme' })
  const given = {
    uid: 'main',
    url: 'http://127.0.0.1:9/',
    secret,
    eventTypes: ['invoice.paid'],
    headers: { 'x-a': '1' },
  }
  await call(from, 'POST', '/app/acme/endpoint', given)
  await call(from, 'POST', '/app/acme/endpoint', { url: 'http://127.0.0.1:9/two', throttleRate: 5 })

  const env = { FROM_URL: origin(from), TO_URL: origin(to), FROM_KEY: apiKey, TO_KEY: apiKey }
  for (let times = 0; times < 2; times++) await runModule(script, env)
  const copied = await call<Copied>(to, 'GET', '/app/acme/endpoint')
  assert.deepEqual(
    copied.data
      .toSorted((a, b) => a.url.localeCompare(b.url))
      .map(({ url, eventTypes, throttleRate }) => ({ url, eventTypes, throttleRate })),
    [
      { url: 'http://127.0.0.1:9/', eventTypes: ['invoice.paid'], throttleRate: null },
      { url: 'http://127.0.0.1:9/two', eventTypes: null, throttleRate: 5 },
    ],
  )
  assert.deepEqual(await call(to, 'GET', '/app/acme/endpoint/main/secret'), { key: secret })
})

interface Copied {
  readonly data: readonly { url: string; eventTypes: string[] | null; throttleRate: number | null }[]
}

async function call<T>({ api }: Program, method: string, path: string, body?: object): Promise<T> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const answer = await fetch(`${api}${path}`, {
    method,
    headers,
    body: body === undefined ? null : JSON.stringify(body),
  })
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`)
  return (await answer.json()) as T
}

async function startServer(t: TestContext): Promise<Program> {
  const { store } = await sqlitePlace(t)
  return Program.start(t, 'serve', store)
}

function origin({ api }: Program): string {
  return new URL(api).origin
}

/** Runs a module as if it stood in the root of the repository. */
async function runModule(code: string, env: Readonly<Record<string, string>>): Promise<void> {
  const child = spawn(process.execPath, ['--input-type=module', '-'], {
    cwd: root,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text
  })
  child.stdin.end(code)
  const [exit] = await once(child, 'close')
  assert.equal(exit, 0, errors)
}
