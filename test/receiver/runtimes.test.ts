import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { Miniflare } from 'miniflare'
import { rolldown } from 'rolldown'
import { signatureProfiles } from '../../receiver/src/index.ts'
import { receiverKey } from '../../src/wire/secret.ts'
import { hasBrowser, openPage } from '../browser/browser.ts'
import { failures, type Vector } from './portable.ts'
import { nowMs, privateKey, secret, signed } from './signed.ts'

/** The core with its stores in memory, compressed. A check against growth by accident, not a goal. */
const coreLimitBytes = 5 * 1024

const body = '{"text":"ä🙂","total":249.00}'
const vectors: readonly Vector[] = [
  ...signatureProfiles.map((profile) => ({
    name: profile,
    profile,
    secret,
    body,
    headers: signed(body, { profile }).headers,
  })),
  ...[privateKey, receiverKey(privateKey, 'standard')].map((key) => ({
    name: key.slice(0, 5),
    profile: 'standard' as const,
    secret: key,
    body,
    headers: signed(body, { secrets: [privateKey] }).headers,
  })),
]

async function bundled(input: string, minify = false): Promise<string> {
  const bundle = await rolldown({
    input: join(import.meta.dirname, input),
    platform: 'neutral',
    onLog(level, log) {
      if (level === 'warn') throw new Error(log.message)
    },
  })
  return (await bundle.generate({ format: 'esm', minify })).output[0].code
}

/** A module that prints the failures as JSON, alone in its file. */
const program = async () =>
  `${await bundled('portable.ts')}
console.log(JSON.stringify(await failures(${JSON.stringify(vectors)}, ${nowMs})))`

test('the checks pass on this Node, and find a package that is wrong', async () => {
  assert.deepEqual(await failures(vectors, nowMs), [])
  const [first] = vectors as readonly [Vector]
  const wrong = { ...first, headers: { ...first.headers, 'webhook-id': 'msg_2' } }
  assert.equal((await failures([wrong], nowMs)).length, 2)
})

const runtimes: Readonly<Record<string, readonly string[]>> = {
  node: [process.execPath],
  deno: ['deno', 'run', '--quiet'],
  bun: ['bun', 'run'],
}

for (const [name, [command = '', ...args]] of Object.entries(runtimes)) {
  const skip = spawnSync(command, ['--version']).status === 0 ? false : `${name} is not on the PATH`
  test(`the package runs on ${name}`, { skip }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-runtime-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const file = join(folder, 'check.mjs')
    writeFileSync(file, await program())
    const { stdout } = await promisify(execFile)(command, [...args, file], { cwd: folder })
    assert.deepEqual(JSON.parse(stdout), [])
  })
}

test('the package runs on Workers', async (t) => {
  const script = `${await bundled('portable.ts')}
export default { async fetch() { return Response.json(await failures(${JSON.stringify(vectors)}, ${nowMs})) } }`
  const worker = new Miniflare({ modules: true, script, compatibilityDate: '2026-01-01' })
  t.after(() => worker.dispose())
  assert.deepEqual(await (await worker.dispatchFetch('http://localhost/')).json(), [])
})

test('the package runs in a browser', { skip: hasBrowser ? false : 'no browser' }, async (t) => {
  // WebCrypto needs a secure context, which a page from this machine is.
  const code = await bundled('portable.ts')
  const server = createServer((request, response) => {
    const isScript = request.url === '/portable.js'
    response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html' })
    response.end(isScript ? code : '<!doctype html><title>check</title>')
  }).listen(0, '127.0.0.1')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  await new Promise((resolve) => server.once('listening', resolve))
  const page = await openPage(t)
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  const found = await page.evaluate(
    `import('/portable.js').then(({ failures }) => failures(${JSON.stringify(vectors)}, ${nowMs}))`,
  )
  assert.deepEqual(found, [])
})

test('the core is small, and has nothing of Node in it', async (t) => {
  const bytes = gzipSync(await bundled('../../receiver/src/index.ts', true)).length
  t.diagnostic(`${bytes} bytes`)
  assert.ok(bytes < coreLimitBytes, `${bytes} bytes`)
  for (const name of ['index', 'sqlite', 'postgres', 'redis', 'hono']) {
    const code = await bundled(`../../receiver/src/${name}.ts`, true)
    assert.equal(/node:|\bBuffer\b|\bprocess\b|\brequire\b/.exec(code), null, name)
  }
})
