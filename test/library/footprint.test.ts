import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { placeFor } from '../store/sqlite-harness.ts'
import { testEncryptionKey } from '../store/test-vault.ts'

const program = join(import.meta.dirname, 'program-without-http.ts')

/** The modules that a program loads which publishes, manages, delivers and explains. */
async function modulesOf(t: TestContext, settings: object): Promise<string[]> {
  const { path } = placeFor(t)
  const given = {
    store: `sqlite:${path}`,
    encryptionKey: testEncryptionKey,
    local: true,
    logLevel: 'error',
    ...settings,
  }
  const { stdout } = await promisify(execFile)(process.execPath, [program, JSON.stringify(given)])
  return JSON.parse(stdout)
}

test('a program that only embeds the library loads neither Fastify, prom-client, OpenTelemetry nor jose', async (t) => {
  const modules = await modulesOf(t, {})
  assert.ok(modules.some((url) => url.endsWith('/src/index.ts')))
  assert.deepEqual(
    modules.filter((url) =>
      /\/src\/http\/|\/node_modules\/(fastify|@fastify|find-my-way|light-my-request|prom-client|@opentelemetry|jose)\//.test(
        url,
      ),
    ),
    [],
  )
})

test('a program that listens loads Fastify', async (t) => {
  const modules = await modulesOf(t, { listen: '127.0.0.1:0' })
  assert.ok(modules.some((url) => url.includes('/node_modules/fastify/')))
})
