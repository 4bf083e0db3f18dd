import assert from 'node:assert/strict'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { rules } from '../../src/features/doctor/diagnosis.ts'
import { readPage, root } from './pages.ts'

const path = 'docs/doctor.md'
const head = '| code | severity | meaning | remedy |\n| --- | --- | --- | --- |\n'

/** The table as the rules themselves give it. */
function table(): string {
  const rows = rules.map(({ code, severity = 'warning', criticalWhen, meaning, remedy }) => {
    const level = criticalWhen === undefined ? severity : `${severity}; critical when ${criticalWhen}`
    return `| \`${code}\` | ${level} | ${meaning} | ${remedy} |\n`
  })
  return head + rows.join('')
}

// UPDATE_DOCS=1 writes the table.
test('doctor.md lists every finding with its severity, meaning and remedy', () => {
  const { text } = readPage(path)
  const start = text.indexOf(head)
  const updated = `${text.slice(0, start)}${table()}`
  if (process.env.UPDATE_DOCS === '1') writeFileSync(join(root, path), updated)
  else assert.equal(text, updated, 'run UPDATE_DOCS=1 npx node --test test/docs/doctor.test.ts')
})

test('no two rules have the same code', () => {
  const codes = rules.map(({ code }) => code)
  assert.deepEqual([...new Set(codes)], codes)
})

test('every finding is planted by a test', () => {
  const files = globSync('test/{operations,cli,domain}/doctor*.test.ts', { cwd: root })
  const tests = files.map((file) => readFileSync(join(root, file), 'utf8')).join('')
  assert.deepEqual(
    rules.filter(({ code }) => !new RegExp(`\\b${code}\\b`).test(tests)).map(({ code }) => code),
    [],
  )
})
