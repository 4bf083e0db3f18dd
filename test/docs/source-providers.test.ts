import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { pagePath, sourceProvidersPage } from '../../scripts/source-providers.ts'

test('source-providers.md is what the table of providers gives', () => {
  assert.equal(readFileSync(pagePath, 'utf8'), sourceProvidersPage(), 'run node scripts/source-providers.ts')
})
