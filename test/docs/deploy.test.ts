import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { deployFiles } from '../../scripts/deploy-files.ts'
import { defaultRules } from '../../src/features/alerts/figures.ts'
import { measures } from '../../src/metrics/measures.ts'
import { root } from './pages.ts'

const rulesFile = join(root, 'deploy/prometheus-rules.yaml')

test('the files of deploy/ are those that the tables make', () => {
  for (const [name, make] of Object.entries(deployFiles)) {
    assert.equal(readFileSync(join(root, 'deploy', name), 'utf8'), make(), 'run node scripts/deploy-files.ts')
  }
})

test('the rule file has the shape that Prometheus reads, and names metrics that exist', () => {
  const { groups } = parse(readFileSync(rulesFile, 'utf8'))
  const names = new Set<string>(Object.values(measures).map(({ name }) => name))
  assert.equal(groups.length, 1)
  const { rules } = groups[0]
  assert.equal(rules.length, defaultRules.length)
  for (const rule of rules) {
    assert.match(rule.alert, /^Sluice[A-Z]\w+$/)
    assert.match(rule.for, /^\d+s$/)
    assert.match(rule.labels.severity, /^(warning|critical)$/)
    assert.match(rule.expr, /[<>] [\d.]+( and |$)/)
    const open = [...rule.expr].filter((letter) => letter === '(').length
    assert.equal(open, [...rule.expr].filter((letter) => letter === ')').length)
    const used = [...rule.expr.matchAll(/sluice_\w+/g)].map(([name]) => String(name).replace(/_bucket$/, ''))
    assert.ok(used.length > 0)
    assert.deepEqual(
      used.filter((name) => !names.has(name)),
      [],
    )
  }
})

test('a rule that looks back takes a series without a past as 0', () => {
  const { groups } = parse(readFileSync(rulesFile, 'utf8'))
  const looks = groups[0].rules
    .map(({ expr }: { expr: string }) => expr)
    .filter((expr: string) => / offset /.test(expr))
  assert.equal(looks.length, 1)
  for (const expr of looks) assert.match(expr, / offset \w+\)\) or vector\(0\)\)/)
})

test('the dashboard shows every metric that is not of single endpoints', () => {
  const text = readFileSync(join(root, 'deploy/grafana-dashboard.json'), 'utf8')
  const missing = Object.values(measures).filter(({ name, scope }) => scope !== 'endpoint' && !text.includes(name))
  assert.deepEqual(missing, [])
  const { panels } = JSON.parse(text)
  assert.equal(new Set(panels.map(({ id }: { id: number }) => id)).size, panels.length)
})
