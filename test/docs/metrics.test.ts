import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Measure, measures } from '../../src/metrics/measures.ts'
import { readPage, readPages, root } from './pages.ts'

const path = 'docs/metrics.md'
const marks = ['<!-- metrics -->\n', '<!-- /metrics -->'] as const
const scopes = {
  process: 'Of one process',
  store: 'Of the whole store',
  endpoint: 'Of the worst endpoints',
} as const

/** The tables as the measures themselves give them. */
function tables(): string {
  const all: readonly Measure[] = Object.values(measures)
  return Object.entries(scopes)
    .map(([scope, title]) => {
      const rows = all.filter((measure) => measure.scope === scope).map(row)
      return `### ${title}\n\n| metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n${rows.join('')}`
    })
    .join('\n')
}

function row({ name, kind, labels, help }: Measure): string {
  const shown = Object.entries(labels).map(([label, values]) => {
    const meaning = typeof values === 'string' ? values : values.map((value) => `\`${value}\``).join(' ')
    return `\`${label}\`: ${meaning}`
  })
  return `| \`${name}\` | ${kind} | ${shown.join('; ') || '–'} | ${help} |\n`
}

// UPDATE_DOCS=1 writes the tables.
test('metrics.md lists every metric with its labels', () => {
  const { text } = readPage(path)
  const start = text.indexOf(marks[0]) + marks[0].length
  const updated = text.slice(0, start) + tables() + text.slice(text.indexOf(marks[1]))
  if (process.env.UPDATE_DOCS === '1') writeFileSync(join(root, path), updated)
  else assert.equal(text, updated, 'run UPDATE_DOCS=1 npx node --test test/docs/metrics.test.ts')
})

test('pages name only metrics that exist', () => {
  const known = new Set<string>(Object.values(measures).map(({ name }) => name))
  const unknown = readPages().flatMap(({ path: page, text }) =>
    [...text.matchAll(/\b(?:sluice_[a-z]+_[a-z_]+|process_[a-z_]+_(?:total|bytes|seconds))\b/g)]
      .map(([name]) => name)
      .filter((name) => !known.has(name) && !known.has(name.replace(/_(bucket|sum|count)$/, '')))
      .map((name) => `${page}: ${name}`),
  )
  assert.deepEqual(unknown, [])
})
