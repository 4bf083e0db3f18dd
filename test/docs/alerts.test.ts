import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { bytesText, percent, span } from '../../src/domain/phrases.ts'
import { defaultRules, type Figure, figures } from '../../src/features/alerts/figures.ts'
import { readPage, root } from './pages.ts'

const path = 'docs/alerts.md'
const tables: Readonly<Record<string, () => string>> = { rules: rulesTable, figures: figuresTable }

function rulesTable(): string {
  const head = '| rule | severity | fires | resolves |\n| --- | --- | --- | --- |\n'
  const rows = defaultRules.map(({ name, figure, severity, side, threshold, clear, holdMs, clearMs }) => {
    const { unit } = figures[figure as keyof typeof figures]
    const fires = `\`${figure}\` ${side} ${amount(unit, threshold)}${holdMs === 0 ? '' : ` for ${span(holdMs)}`}`
    const least = side === 'above' ? 'most' : 'least'
    return `| \`${name}\` | ${severity} | ${fires} | at ${least} ${amount(unit, clear)}${clearMs === 0 ? '' : ` for ${span(clearMs)}`} |\n`
  })
  return head + rows.join('')
}

function figuresTable(): string {
  const head = '| figure | meaning | unit | finding of the doctor |\n| --- | --- | --- | --- |\n'
  const rows = Object.entries<Figure>(figures).map(([name, { meaning, unit, finding }]) => {
    return `| \`${name}\` | ${meaning} | ${unit} | ${finding === undefined ? '' : `\`${finding}\``} |\n`
  })
  return head + rows.join('')
}

function amount(unit: Figure['unit'], value: number): string {
  if (unit === 'bytes') return bytesText(value)
  if (unit === 'share') return percent(value)
  return unit === 'seconds' ? span(value * 1000) : value.toLocaleString('en')
}

// UPDATE_DOCS=1 writes the tables.
test('alerts.md lists every rule and every figure', () => {
  let { text } = readPage(path)
  for (const [name, table] of Object.entries(tables)) {
    const [start, end] = [`<!-- ${name} -->\n\n`, `\n<!-- end of ${name} -->`]
    const [from, to] = [text.indexOf(start) + start.length, text.indexOf(end)]
    assert.ok(from >= start.length && to > 0, `the page has no marks for ${name}`)
    text = `${text.slice(0, from)}${table()}${text.slice(to)}`
  }
  if (process.env.UPDATE_DOCS === '1') writeFileSync(join(root, path), text)
  else assert.equal(readPage(path).text, text, 'run UPDATE_DOCS=1 npx node --test test/docs/alerts.test.ts')
})

test('every rule is planted by a test, on both stores', () => {
  const tests = readFileSync(join(root, 'test/leader/alerts.test.ts'), 'utf8')
  assert.deepEqual(
    defaultRules.filter(({ name }) => !tests.includes(`'${name}'`)).map(({ name }) => name),
    [],
  )
})
