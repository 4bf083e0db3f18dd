import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { secret, signed } from '../receiver/signed.ts'
import { type Packed, packReceiver } from './pack-receiver.ts'
import { typeProblems } from './type-check.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const env = { ...process.env, NODE_OPTIONS: '' }

/** A program that is compiled against the package's declarations, and not run. */
const consumer = `
import { createServer } from 'node:http'
import { DatabaseSync } from 'node:sqlite'
import { type ErrorCode, handleOnce, memoryStore, openReceiver, openVerifier, ReceiverError, type Webhook } from '@sluice/receiver'
import { expressHandler } from '@sluice/receiver/express'
import { fastifyReceiver } from '@sluice/receiver/fastify'
import { honoHandler } from '@sluice/receiver/hono'
import { nextApi, nextRoute } from '@sluice/receiver/next'
import { nodeHandler } from '@sluice/receiver/node'
import { postgresStore, postgresTransaction } from '@sluice/receiver/postgres'
import { redisStore } from '@sluice/receiver/redis'
import { sqliteStore, sqliteTransaction } from '@sluice/receiver/sqlite'
import pg from 'pg'

const secret = 'whsec_AAAA'
const pool = new pg.Pool()
const plain = openReceiver({ secret, store: memoryStore(), handle: async (webhook: Webhook) => void webhook.json() })
openReceiver({
  secret: ['old', 'new'],
  profile: 'github',
  headers: { id: 'x-github-delivery' },
  transaction: postgresTransaction(pool),
  async handle(webhook, client) {
    const { rowCount } = await client.query('select $1', [webhook.id])
    console.log(rowCount?.toFixed())
  },
})
openReceiver({
  secret,
  transaction: sqliteTransaction(new DatabaseSync(':memory:')),
  handle: (webhook, database) => void database.prepare('select ?').all(webhook.id),
})
for (const store of [sqliteStore(new DatabaseSync(':memory:')), postgresStore(pool), redisStore(async (args) => args[0])]) {
  const result = await handleOnce(store, 'msg_1', () => 7)
  if (result.outcome === 'handled') console.log(result.value.toFixed())
}
createServer(nodeHandler(plain))
console.log(expressHandler(plain), fastifyReceiver(plain, '/'), honoHandler(plain), nextApi(plain), nextRoute(plain))
try {
  const { id } = await openVerifier({ secret }).verify({ headers: new Headers(), body: new Uint8Array() })
  console.log(id)
} catch (error) {
  const code: ErrorCode | undefined = error instanceof ReceiverError ? error.code : undefined
  console.log(code)
}
// @ts-expect-error: there is no such profile
openVerifier({ secret, profile: 'gitlab' })
`

function readmeBlocks(): string[] {
  const readme = readFileSync(join(root, 'receiver/README.md'), 'utf8')
  const blocks = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code)
  assert.equal(blocks.length, 3)
  return blocks
}

describe('@sluice/receiver, installed in an empty project', () => {
  let project = ''
  let packed: Packed

  before(async () => {
    project = mkdtempSync(join(tmpdir(), 'sluice-receiver-consumer-'))
    packed = await packReceiver()
    writeFileSync(join(project, 'package.json'), '{ "name": "consumer", "private": true, "type": "module" }')
    const install = ['install', '--offline', '--no-audit', '--no-fund', packed.filename]
    await run('npm', install, { cwd: project, env })
  })
  after(() => rmSync(project, { recursive: true }))

  test('has modules, declarations, a readme and a license, and depends on nothing', () => {
    const files = packed.files.map(({ path }) => path)
    const others = files.filter((path) => !/^dist\/[a-z]+\.(js|d\.ts)$/.test(path)).sort()
    assert.deepEqual(others, ['LICENSE', 'README.md', 'package.json'])
    const { dependencies, exports } = JSON.parse(readFileSync(join(root, 'receiver/package.json'), 'utf8'))
    assert.equal(dependencies, undefined)
    for (const [name, { types, default: module }] of Object.entries<Record<string, string>>(exports)) {
      if (name === './package.json') continue
      for (const file of [types, module]) assert.ok(files.includes(String(file).slice(2)), `${name} is missing`)
    }
    assert.ok(packed.unpackedSize < 100_000, `${packed.unpackedSize} bytes`)
  })

  test('its declarations type-check, strictly and without skipping any', async () => {
    assert.equal(await typeProblems(project, consumer), '')
  })

  test('the code of its readme type-checks, strictly', async () => {
    for (const block of readmeBlocks()) {
      assert.equal(await typeProblems(project, `${block}\ndeclare const pool: import('pg').Pool\n`), '')
    }
  })

  test('the code of its readme runs', async () => {
    const blocks = readmeBlocks()
    const { headers, body } = signed('{"invoice":17}', { at: Date.now() })
    const request = `new Request('http://localhost/', { method: 'POST', headers: ${JSON.stringify(headers)}, body: ${JSON.stringify(body.toString())} })`
    const statements: string[] = []
    const pool = `const statements = []
const client = { query: async (text) => (statements.push(text), { rows: [{ free: true }] }), release() {} }
const pool = { ...client, connect: async () => client }`
    const programs = [
      `${blocks[0]}\nconsole.log((await receiver.receive(${request})).status)\nconsole.log((await (await receiver.receive(${request})).json()).status)`,
      `${pool}\n${blocks[1]}\nconsole.log((await receiver.receive(${request})).status, statements.at(-1), statements.at(-2))`,
      `${blocks[2]}\nconsole.log(await onWebhook(${JSON.stringify(headers)}, ${JSON.stringify(body.toString())}))
console.log(await onWebhook(${JSON.stringify(headers)}, 'tampered'))`,
    ]
    for (const [i, code] of programs.entries()) {
      const file = join(project, `readme-${i}.mts`)
      writeFileSync(file, code)
      const { stdout } = await run(process.execPath, [file], { cwd: project, env: { ...env, WEBHOOK_SECRET: secret } })
      statements.push(stdout)
    }
    assert.deepEqual(statements, [
      'msg_1 { invoice: 17 }\n200\nduplicate\n',
      '200 commit insert into paid (invoice) values ($1)\n',
      'handled msg_1\nhandled\nwrong_signature\n',
    ])
  })
})
