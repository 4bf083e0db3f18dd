import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { Client } from '../e2e/client.ts'
import { eventually } from '../e2e/eventually.ts'
import { openPlace, sqlitePlace } from '../e2e/place.ts'
import { apiKey, Program } from '../e2e/program.ts'
import { testEncryptionKey } from '../store/test-vault.ts'

const folder = join(import.meta.dirname, '../../examples')
const tested = new Set<string>()
/** The run's cache of compiled sources. Without it, compiling them is most of what an example does. */
const { NODE_COMPILE_CACHE } = process.env
const compiled = NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }

/** An example in a process of its own, from the sources. */
function start(t: TestContext, name: string, args: string[] = [], env: Record<string, string> = {}) {
  tested.add(name)
  const child = spawn(process.execPath, ['--conditions=sluice-source', join(folder, name), ...args], {
    env: { PATH: process.env.PATH, ...compiled, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said = { out: '', errors: '' }
  child.stdout.setEncoding('utf8').on('data', (text) => {
    said.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said.errors += text
  })
  const exited = once(child, 'close')
  atEnd(t, async () => {
    child.kill('SIGKILL')
    await exited
  })
  return { said, exited }
}

/** Runs an example to its end; the answer is what it printed, ids shortened. */
async function run(t: TestContext, name: string, args?: string[], env?: Record<string, string>): Promise<string> {
  const { said, exited } = start(t, name, args, env)
  const [code] = await exited
  assert.equal(code, 0, said.errors)
  assert.equal(said.errors, '')
  return said.out.replace(/msg_\w+/g, 'msg_…')
}

const ordered = 'ordered a lamp and published msg_…\nthe piano was not paid: no order, no webhook\n1 order, 1 message\n'

test('quickstart.ts delivers and verifies', async (t) => {
  const { files } = await sqlitePlace(t)
  const printed = await run(t, 'quickstart.ts', [files.path])
  assert.equal(printed, 'published msg_…\ndelivered and verified: {"video":42,"views":1000000}\n')
})

test('tenants.ts lets a delivery fail, says why and replays it', async (t) => {
  const { files } = await sqlitePlace(t)
  const printed = await run(t, 'tenants.ts', [files.path])
  assert.match(printed, /^dead: .+\ndelivered\n$/)
})

test('transactional-sqlite.ts keeps an order and its message together', async (t) => {
  const { files } = await sqlitePlace(t)
  assert.equal(await run(t, 'transactional-sqlite.ts', [files.path]), ordered)
})

test('transactional-postgres.ts keeps an order and its message together', async (t) => {
  const { store } = await openPlace(t, 'postgres')
  const env = { DATABASE_URL: store, SLUICE_ENCRYPTION_KEY: testEncryptionKey }
  assert.equal(await run(t, 'transactional-postgres.ts', [], env), ordered)
})

test('producer.ts publishes once, however often it sends; receiver.ts verifies', async (t) => {
  const { store } = await sqlitePlace(t)
  const program = await Program.start(t, 'serve', store)
  const client = new Client(program.api)
  atEnd(t, () => client.close())
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
  const { said } = start(t, 'receiver.ts', [], { WEBHOOK_SECRET: secret, PORT: '0' })
  const port = await eventually('the receiver listens', () => /port: (\d+)/.exec(said.out)?.[1])
  await client.createApplication('acme')
  await client.createEndpoint('acme', { url: `http://127.0.0.1:${port}/`, secret })

  const env = { SLUICE_URL: new URL(program.api).origin, SLUICE_API_KEY: apiKey }
  const printed = await run(t, 'producer.ts', [], env)
  assert.equal(printed, 'published msg_…\npublished again: video-42-trending\n')
  const [, body] = await eventually('it is verified', () => /^verified \S+: (.*)$/m.exec(said.out) ?? undefined)
  assert.equal(body, '{"video":42}')
  assert.equal((await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: '{}' })).status, 401)
})

test('every example is run by a test', () => {
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.endsWith('.ts')),
    [...tested].toSorted(),
  )
})
