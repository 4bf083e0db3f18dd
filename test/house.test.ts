import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

test('every file of src is in its room: layers, features, circles and sizes are as scripts/layers.ts has them', () => {
  const map = spawnSync(process.execPath, [join(import.meta.dirname, '../scripts/map.ts')], { encoding: 'utf8' })
  assert.equal(map.stderr, '')
  assert.equal(map.status, 0)
})
