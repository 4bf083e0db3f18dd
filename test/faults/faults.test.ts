import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { returns } from '../../faults/checker.ts'
import { faultKinds } from '../../faults/faults.ts'
import { epochIgnored, plantedFaults } from '../../faults/plants.ts'
import { runPlan } from '../../faults/run.ts'
import { compileShim } from '../../faults/shim.ts'
import { prepare } from '../../faults/tools.ts'

/** The short form of `npm run faults`: one round each, on SQLite. The end-to-end tests kill, freeze and restart the rest. */
const folder = await mkdtemp(join(tmpdir(), 'sluice-faults-'))
after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
const shim = compileShim(folder)
const skip = 'missing' in shim ? shim.missing : false
let tools = skip === false ? await prepare(folder) : undefined

for (const name of ['power-cut-torn', 'sync-EIO']) {
  test(`what was accepted survives ${name}`, { skip }, async (t) => {
    const kind = faultKinds.find((each) => each.name === name)
    assert.ok(kind && tools)
    const plan = { kind, store: 'sqlite', seed: 7, rounds: 1, earlierCuts: 6 } as const
    const { violations, stuck, histories } = await runPlan(tools, plan)
    t.diagnostic(`${histories.arrived.length} arrived, ${JSON.stringify(histories.faults[0]?.did)}`)
    assert.deepEqual([...violations, ...stuck], [])
    assert.equal(histories.faults.length, 1)
    assert.ok(histories.published.filter(({ outcome }) => outcome === 'accepted').length >= 40)
  })
}

test('what was accepted survives a failover to a synchronous standby, and the former primary is not written to', async (t) => {
  const kind = faultKinds.find(({ name }) => name === 'failover-killed')
  assert.ok(kind)
  tools ??= await prepare(folder)
  const { violations, stuck, histories } = await runPlan(tools, { kind, store: 'postgres', seed: 7, rounds: 1 })
  t.diagnostic(`accepted again ${returns(histories)} ms after the promotion`)
  assert.deepEqual([...violations, ...stuck], [])
  assert.deepEqual(
    histories.faults.map(({ did }) => did),
    [{ writesToFormer: 0 }],
  )
})

test('a disk that drops 98 % of its syncs is found in one round', { skip }, async () => {
  const lies = plantedFaults.find(({ store, kind }) => store === 'sqlite' && kind.cutsPower)
  assert.ok(lies && tools)
  const { kind, store, plant } = lies
  const { violations, stuck } = await runPlan(tools, { kind, store, plant, seed: 7, rounds: 1, earlierCuts: 6 })
  // A file without its tables cannot be started with: that is a finding, too.
  assert.ok(violations.some(({ rule }) => rule === 'lost') || stuck.length > 0)
})

test('the page has a row of each fault on each store, and of each that is planted', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/faults.md'), 'utf8')
  const lines = faultKinds.flatMap(({ name, stores }) => stores.map((store) => ({ name, store })))
  const missing = [...lines, ...plantedFaults].filter(({ name, store }) => !page.includes(`\n| ${name} | ${store} | `))
  assert.deepEqual(
    missing.map(({ name, store }) => `${name} ${store}`),
    [],
  )
})

test('the sources have every text that the ignored epoch replaces', () => {
  for (const { file, from } of epochIgnored) {
    const parts = readFileSync(join(import.meta.dirname, '../..', file), 'utf8').split(from)
    assert.equal(parts.length, 2, `${file} has it once: ${from}`)
  }
})
