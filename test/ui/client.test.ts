import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { clientFiles, clientPath } from '../../scripts/client.ts'

test('the API client of the dashboard follows from docs/openapi.json (npm run build:client rewrites it)', () => {
  for (const [name, text] of Object.entries(clientFiles())) {
    assert.ok(readFileSync(clientPath(name), 'utf8') === text, `ui/src/api/${name} is stale: npm run build:client`)
  }
})
