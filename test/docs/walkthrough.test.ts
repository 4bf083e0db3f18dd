import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { sqlitePlace } from '../e2e/place.ts'
import { apiKey, Program } from '../e2e/program.ts'
import { readPage } from './pages.ts'
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
  assert.ok((await walkThrough(t, 'docs/tutorial.md')) > 9)
})

test('api.md runs as printed', { skip }, async (t) => {
  assert.ok((await walkThrough(t, 'docs/api.md')) > 5)
})

/** A reader reads 200 words a minute, pastes a block in 15 s, and waits two minutes for `npm ci`. */
test('tutorial.md takes ten minutes', () => {
  const { text, blocks } = readPage('docs/tutorial.md')
  const pasted = blocks.filter(({ language }) => ['sh', 'console'].includes(language))
  const minutes = text.split(/\s+/).length / 200 + pasted.length / 4 + 2
  assert.ok(minutes <= 10, `${minutes} minutes`)
})

async function startServer(t: TestContext): Promise<Program> {
  const { store } = await sqlitePlace(t)
  return Program.start(t, 'serve', store)
}

function origin({ api }: Program): string {
  return new URL(api).origin
}
