import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { refusals } from '../../edge/src/answer.ts'
import { type Field, fallbackOf, fields, modes } from '../../edge/src/fields.ts'
import { readPage, root } from './pages.ts'

const path = 'docs/edge.md'

const tables = {
  '| field | modes | default | meaning |\n| --- | --- | --- | --- |\n': () =>
    Object.entries(fields as Readonly<Record<string, Field>>).map(([name, field]) => {
      const inAll = field.modes.length === modes.length
      const values = new Set(field.modes.map((mode) => fallbackOf(field, mode)))
      const shown = [...values].map((value) => (value === undefined ? '–' : `\`${value}\``)).join(' or ')
      return `| \`${name}\` | ${inAll ? 'all' : field.modes.join(', ')} | ${shown} | ${field.help}${limitsOf(field)} |\n`
    }),
  '| code | status | cause |\n| --- | --- | --- |\n': () =>
    Object.entries(refusals).map(([code, { status, meaning }]) => `| \`${code}\` | ${status} | ${meaning} |\n`),
}

function limitsOf({ type }: Field): string {
  switch (type.kind) {
    case 'count':
      return `; ${type.min} to ${type.max}`
    case 'choice':
      return `: ${type.of.map((each) => `\`${each}\``).join(', ')}`
    case 'text':
      return `: ${type.form}`
    default:
      return ''
  }
}

// UPDATE_DOCS=1 writes the tables.
test('edge.md lists the fields of a route and the refusals', () => {
  const { text } = readPage(path)
  let updated = text
  for (const [head, rows] of Object.entries(tables)) {
    const start = updated.indexOf(head)
    assert.ok(start > 0, head)
    const end = updated.indexOf('\n\n', start) + 1
    updated = updated.slice(0, start) + head + rows().join('') + updated.slice(end)
  }
  if (process.env.UPDATE_DOCS === '1') writeFileSync(join(root, path), updated)
  else assert.equal(text, updated, 'run UPDATE_DOCS=1 npx node --test test/docs/edge.test.ts')
})
