import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'

const root = join(import.meta.dirname, '../..')
const workflows = globSync('.github/workflows/*.yml', { cwd: root })
const read = (path: string) => readFileSync(join(root, path), 'utf8')

test('workflows name each action by the hash of a commit, and have no right but to read: a job asks for more', () => {
  assert.ok(workflows.length > 1)
  for (const path of workflows) {
    const uses = [...read(path).matchAll(/uses: *(.+)/g)].map(([, action = '']) => action)
    assert.ok(uses.length > 0)
    for (const action of uses) assert.match(action, /^[\w./-]+@[0-9a-f]{40} # v[\d.]+$/, `${path}: ${action}`)
    assert.deepEqual((parse(read(path)) as { permissions: unknown }).permissions, { contents: 'read' }, path)
  }
})

test('the workflow of tests runs the two commands of the README', () => {
  for (const command of ['npm ci && npm test', 'npm ci && npm start']) {
    assert.ok(read('README.md').includes(command), command)
    assert.ok(read('.github/workflows/ci.yml').includes(command), command)
  }
})

test('the forms for issues and updates are YAML', () => {
  for (const path of globSync('.github/**/*.yml', { cwd: root })) assert.ok(parse(read(path)) !== null, path)
})
