import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { sources } from '../prepared.ts'

/** Prints the URLs of all loaded modules to standard error when the program ends. */
const recorder = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module'
  const loaded = []
  registerHooks({
    load(url, context, next) {
      loaded.push(url)
      return next(url, context)
    },
  })
  process.on('exit', () => process.stderr.write(JSON.stringify(loaded)))
`)}`

const heavy = /\/node_modules\/(jose|fastify|@fastify|pg|prom-client|@opentelemetry)\//

for (const args of ['--version', 'source create --help']) {
  test(`sluice ${args} loads no jose and no part of the server`, async () => {
    const { stderr } = await promisify(execFile)(process.execPath, ['--import', recorder, sources, ...args.split(' ')])
    const modules = JSON.parse(stderr) as string[]
    assert.ok(modules.some((url) => url.endsWith('/src/sources/providers.ts')))
    assert.deepEqual(
      modules.filter((url) => heavy.test(url)),
      [],
    )
  })
}

test("a server starts without Node's client of fetch", async () => {
  const modules = ['compose/parts.ts', 'http/app.ts', 'http/metrics.ts'].map((path) => join(sources, '..', path))
  const script = `
    for (const path of ${JSON.stringify(modules)}) await import(path)
    process.stdout.write(process.moduleLoadList.filter((name) => name.includes('deps/undici')).join('\\n'))`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
  // An import of node:http loads it, 60 ms of each start. src/wire/network.ts has the functions.
  assert.equal(stdout, '')
})
