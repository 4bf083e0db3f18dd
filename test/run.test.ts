import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { sharedServerVariable } from './store/postgres-server.ts'

const isAskedToFail = process.env.TESTS_FAIL === 'yes'

test('this test fails when it is asked to', () => {
  assert.ok(!isAskedToFail)
})

test('a run with a test that fails ends with 1, although it stops its own Postgres server after it', {
  skip: isAskedToFail,
}, () => {
  const { NODE_TEST_CONTEXT: _, [sharedServerVariable]: __, ...env } = process.env
  const { status, stdout } = spawnSync(process.execPath, [join(import.meta.dirname, 'run.ts'), 'test/run.test.ts'], {
    env: { ...env, TESTS_FAIL: 'yes' },
    cwd: join(import.meta.dirname, '..'),
    encoding: 'utf8',
  })
  assert.match(stdout, /fail 1\n/)
  assert.equal(status, 1)
})
