import assert from 'node:assert/strict'
import { executionAsyncId } from 'node:async_hooks'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

const preload = join(import.meta.dirname, 'preload.ts')
const isPreloaded = process.execArgv.includes(preload)

test('the test runner follows no promises', { skip: !isPreloaded && 'test/run.ts loads the preload' }, async () => {
  await undefined
  const before = executionAsyncId()
  await undefined
  assert.equal(executionAsyncId(), before, 'a followed promise has an id of its own')
})

test('a rejection without an owner fails its file and is printed with its stack', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-preload-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'stray.test.mjs')
  writeFileSync(
    file,
    `import { test } from 'node:test'
     test('passes', async () => {
       await undefined
       void Promise.reject(new Error('stray'))
       await new Promise((resolve) => setTimeout(resolve, 10))
     })`,
  )
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const { status, stderr } = spawnSync(process.execPath, ['--import', preload, file], { env, encoding: 'utf8' })
  assert.equal(status, 1)
  assert.match(stderr, /A rejection without an owner: Error: stray\s+at .*stray\.test\.mjs:4/)
})
